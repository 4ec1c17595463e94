// Calls methods of a bank's library one after the other, as a file says: [[method, schema, ...arguments], ...]. Prints what each
// answered, and what the library's own schema says against that answer.
import { readFileSync } from "node:fs";
import * as schemas from "sdk-node-apis-efi";
import EfiPay from "sdk-node-apis-efi";
import { endpoints } from "./node_modules/sdk-node-apis-efi/dist/esm/constants/endpoints.js";

endpoints.APIS.PIX.URL.SANDBOX = process.env.BASE_URL;
const efi = new EfiPay({
  sandbox: true,
  client_id: process.env.CLIENT_ID,
  client_secret: process.env.CLIENT_SECRET,
  certificate: process.env.PKCS12_FILE,
});

function judge(schema, answer) {
  if (schema === null) return [];
  const issues = schemas[`Pix${schema}ResponseSchema`].safeParse(answer).error?.issues ?? [];
  return issues.map((issue) => [issue.path.join("."), issue.code, ...(issue.keys ?? [])].join(" "));
}

const answers = [];
for (const [method, schema, ...args] of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    const answer = await efi[method](...args);
    answers.push({ answer, issues: judge(schema, answer) });
  } catch (error) {
    answers.push({ refusal: error instanceof Error ? error.message : error });
  }
}
console.log(JSON.stringify(answers));
