// A scripted service in place of `fetch`, for tests without a connection.
import { Client } from "pixconnect-client";

export const CHARGE = { id: 7, amount: 10607, key: "loja@pix.example", external_id: "order-1", status: "PENDING" };

/** A response in the envelope. */
export function done(data = CHARGE, more = {}, headers = {}) {
  return () => Response.json({ success: true, data, meta: { request_id: "r-0" }, ...more }, { headers });
}

/** An error response. */
export function refused(status, code, headers = {}, message = "amount: must be less") {
  const said = { success: false, error: { code, message }, meta: { request_id: "r-1" } };
  return () => Response.json(said, { status, headers });
}

/** No response, after the request may have taken effect. */
export function lost() {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" }) });
}

/** No connection. */
export function unreached() {
  throw new TypeError("fetch failed", {
    cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" }),
  });
}

/** Records requests in `sent`, and responds with the next of `outcomes`, or with a charge. */
export function makeWorld({ outcomes = [], logins = [], lifetimeS = 300, ...options } = {}) {
  const world = { sent: [], tokensCount: 0, outcomes: [...outcomes], logins: [...logins] };
  world.fetch = async (url, init) => {
    const headers = new Headers(init.headers);
    if (url.endsWith("/v1/iam/users/login")) {
      await new Promise(setImmediate);
      const login = world.logins.shift();
      if (login !== undefined) {
        return login(init);
      }
      world.tokensCount += 1;
      world.grant = init.body;
      return done({ access_token: `token-${world.tokensCount}`, expires_in: lifetimeS, token_type: "Bearer" })();
    }
    world.sent.push({
      method: init.method,
      url,
      token: headers.get("authorization")?.replace("Bearer ", ""),
      requestId: headers.get("x-request-id"),
      payee: headers.get("x-payee-tax-id"),
      redirect: init.redirect,
      text: init.body,
      body: init.body === undefined ? undefined : JSON.parse(init.body),
    });
    return (world.outcomes.shift() ?? done())(init);
  };
  world.client = new Client({
    baseUrl: "http://pix.example/",
    clientId: "me",
    clientSecret: "a&b",
    fetch: world.fetch,
    ...options,
  });
  return world;
}
