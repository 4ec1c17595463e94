// Calls methods of Woovi's library one after the other, as a file says: [[client, method, ...arguments], ...], and prints what
// each answered. With a sample, lets the library's own handler of webhooks judge it, as it is and with another body. The library
// names apiwithlog, which it never imports and which brings a hundred build tools: package.json puts another in its place.
import { readFileSync } from "node:fs";
import { createClient } from "@woovi/node-sdk";

const woovi = createClient({ appId: process.env.APP_ID, baseUrl: process.env.BASE_URL });

async function judge(body, signature) {
  const handler = woovi.webhook.handler({ onChargeCompleted: () => undefined });
  const headers = { "x-webhook-signature": signature };
  return (await handler.POST(new Request("http://localhost/", { method: "POST", headers, body }))).status;
}

if (process.env.SAMPLE) {
  const body = readFileSync(`${process.env.SAMPLE}/payload.json`, "utf8").replace(/\n$/, "");
  const signature = readFileSync(`${process.env.SAMPLE}/x-webhook-signature.txt`, "utf8").trim();
  console.log(JSON.stringify([await judge(body, signature), await judge(body.replace("value", "Value"), signature)]));
} else {
  const answers = [];
  for (const [client, method, ...args] of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
    try {
      answers.push({ answer: await woovi[client][method](...args) });
    } catch (error) {
      answers.push({ refusal: error instanceof Error ? error.message : error });
    }
  }
  console.log(JSON.stringify(answers));
}
