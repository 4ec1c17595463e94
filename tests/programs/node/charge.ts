// A charge is made, paid and read by openapi-fetch, with the types that openapi-typescript made of the OpenAPI document.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { env: Record<string, string> };

const { BASE_URL, CLIENT_ID, CLIENT_SECRET, PIX_KEY, AMOUNT } = process.env;
const client = createClient<paths>({ baseUrl: BASE_URL });

// What answers something else than what was asked for ends the program.
function take<Data>(answer: { data?: Data; error?: unknown }): Data {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const granted = take(await client.POST("/oauth/token", {
  body: { grant_type: "client_credentials", client_id: CLIENT_ID, client_secret: CLIENT_SECRET },
  headers: { "Content-Type": "application/x-www-form-urlencoded" },
}));
client.use({ onRequest: ({ request }) => request.headers.set("Authorization", `Bearer ${granted.access_token}`) });

const made = take(await client.POST("/v1/connect/charge", { body: { key: PIX_KEY, amount: Number(AMOUNT) } })).data;
const paid = take(await client.POST("/sandbox/v1/payments", { body: { emv: made.emvqrcps } })).data;
const path = { id: made.id };
const read = take(await client.GET("/v1/connect/charge/{id}", { params: { path } })).data;
const absent = await client.GET("/v1/connect/charge/{id}", { params: { path: { id: Number.MAX_SAFE_INTEGER } } });
const events = take(await client.GET("/v1/webhook/events", {})).data;
// Which event it is says which payload it has.
const received = events.flatMap((event) => event.name === "transfer.in.confirmed" ? [event.payload.amount] : []);

console.log(JSON.stringify({
  made: made.status, paid: paid.status, read: read.status, amount: read.amount,
  absent: absent.error?.error.code, received: received[0],
}));
