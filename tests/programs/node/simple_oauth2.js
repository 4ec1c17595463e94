// simple-oauth2 logs in by client credentials in both ways of the standard, calls once, and is refused with a wrong secret.
import { ClientCredentials } from "simple-oauth2";

const { BASE_URL, CLIENT_ID, CLIENT_SECRET } = process.env;

function open(secret, authorizationMethod) {
  const auth = { tokenHost: BASE_URL, tokenPath: "/oauth/token" };
  return new ClientCredentials({ client: { id: CLIENT_ID, secret }, auth, options: { authorizationMethod } });
}

const statuses = [];
for (const method of ["header", "body"]) {
  const { token } = await open(CLIENT_SECRET, method).getToken({ scope: "ledger.read" });
  const headers = { Authorization: `${token.token_type} ${token.access_token}` };
  statuses.push((await fetch(`${BASE_URL}/v1/connect/balance`, { headers })).status);
}
const refused = await open("wrong", "header").getToken({}).catch((error) => error.data.payload.error);
console.log(JSON.stringify({ statuses, refused }));
