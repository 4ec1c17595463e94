// A charge of the central bank's Pix API is made, paid, read and refunded by openapi-fetch, with the types that openapi-typescript
// made of that door's document.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { env: Record<string, string> };

const { BASE_URL, CLIENT_ID, CLIENT_SECRET, PIX_KEY, TXID: txid } = process.env;

// What answers something else than what was asked for ends the program.
function take<Data>(answer: { data?: Data; error?: unknown }): Data {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

async function ask(path: string, headers: Record<string, string>, body: object) {
  headers = { "Content-Type": "application/json", ...headers };
  return (await fetch(BASE_URL + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

const login = { grant_type: "client_credentials", client_id: CLIENT_ID, client_secret: CLIENT_SECRET };
const headers = { Authorization: `Bearer ${(await ask("/oauth/token", {}, login)).access_token}` };
const pix = createClient<paths>({ baseUrl: `${BASE_URL}/pix/v2`, headers });

const body = { calendario: { expiracao: 3600 }, valor: { original: "10.00" }, chave: PIX_KEY };
const made = take(await pix.PUT("/cob/{txid}", { params: { path: { txid } }, body }));
await ask("/sandbox/v1/payments", headers, { emv: made.pixCopiaECola });
const read = take(await pix.GET("/cob/{txid}", { params: { path: { txid } } }));
const [paid] = read.pix ?? [];
const refund = { params: { path: { e2eid: paid.endToEndId, id: "d1" } } };
let returned = take(await pix.PUT("/pix/{e2eid}/devolucao/{id}", { ...refund, body: { valor: "4.00" } }));
while (returned.status === "EM_PROCESSAMENTO") {
  await new Promise((resume) => setTimeout(resume, 50));
  returned = take(await pix.GET("/pix/{e2eid}/devolucao/{id}", refund));
}
const query = { inicio: made.calendario.criacao, fim: returned.horario.solicitacao, txid };
const listed = take(await pix.GET("/pix", { params: { query } }));
const { error } = await pix.PUT("/cob/{txid}", { params: { path: { txid } }, body: { ...body, valor: { original: "5" } } });

console.log(JSON.stringify({
  made: made.status, read: read.status, paid: paid.valor, returned: returned.status,
  listed: listed.pix.map((each) => [each.txid, each.devolucoes?.[0]?.valor]),
  refused: error?.violacoes?.map((violation) => violation.propriedade),
}));
