// openid-client finds by the metadata where to log in, in both ways of the standard, calls once, and is refused with a wrong secret.
import * as openid from "openid-client";

const { BASE_URL, CLIENT_ID, CLIENT_SECRET } = process.env;

function discover(authentication) {
  // The service is reached by plain http here.
  const options = { algorithm: "oauth2", execute: [openid.allowInsecureRequests] };
  return openid.discovery(new URL(BASE_URL), CLIENT_ID, undefined, authentication, options);
}

const statuses = [];
for (const authenticate of [openid.ClientSecretBasic, openid.ClientSecretPost]) {
  const configuration = await discover(authenticate(CLIENT_SECRET));
  const token = await openid.clientCredentialsGrant(configuration, { scope: "ledger.read" });
  const address = new URL("/v1/connect/balance", BASE_URL);
  statuses.push((await openid.fetchProtectedResource(configuration, token.access_token, address, "GET")).status);
}
const wrong = await discover(openid.ClientSecretBasic("wrong"));
// It takes a 401 with a challenge for one of HTTP's, and leaves the answer to whoever asks.
const challenged = await openid.clientCredentialsGrant(wrong).catch((error) => error);
const refused = (await challenged.response.json()).error;
console.log(JSON.stringify({ statuses, refused }));
