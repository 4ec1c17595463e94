/**
 * Sends calls: access tokens, retries and waits.
 *
 *     token ──► send ──► response? ── yes ─────────────────────────► result
 *       ▲                  │ 401: another token, once
 *       │                  │ no response, 429, 503, OUTCOME_UNKNOWN
 *       └──── wait ◄───────┘ if a retry is safe
 */
import { type Answer, type Call, isRead, isRepeatable, LOGIN, readAnswer } from "./call.js";
import { ApiError, NoAnswer, PixConnectError } from "./errors.js";
import { exchange, type Fetch, type Request } from "./exchange.js";
import { Items, type Page } from "./lists.js";
import { VERSION } from "./version.js";

export const TIMEOUT_MS = 30_000;
export const RETRIES = 4;
/** Renew a token this long before it expires, or after half its lifetime if that is earlier. */
const RENEWED_BEFORE_MS = 30_000;
const BACKOFF_MS = 250;
const BACKOFF_MAX_MS = 8_000;
/** If the service asks for a longer wait, throw the error at once. Seconds. */
const RETRY_AFTER_MAX_S = 60;
const AGENT = `pixconnect-client/${VERSION} node/${process.versions.node}`;
const TRANSIENT: ReadonlySet<string> = new Set(["OUTCOME_UNKNOWN", "RATE_LIMITED", "SERVICE_UNAVAILABLE"]);

export interface ClientOptions {
  /** The service's URL, such as `https://pix.example`. */
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  /** The identity service's URL; by default the same as `baseUrl`. */
  authUrl?: string;
  /** Timeout without any received data. */
  timeoutMs?: number;
  /** Maximum number of retries. */
  retries?: number;
  /** Your own `fetch`, for example with a proxy or certificates. It must not retry by itself. */
  fetch?: Fetch;
}

/** Sends calls with a shared access token. */
export class Transport {
  readonly #baseUrl: string;
  readonly #authUrl: string;
  readonly #grant: string;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #fetch: Fetch;
  #token = "";
  #renewAtMs = Number.NEGATIVE_INFINITY;
  /** The pending login. Each waiting call creates its own error from its outcome. */
  #login: Promise<() => string> | undefined = undefined;

  constructor(options: ClientOptions) {
    this.#baseUrl = checkUrl("baseUrl", options.baseUrl);
    this.#authUrl = checkUrl("authUrl", options.authUrl ?? options.baseUrl);
    this.#grant = new URLSearchParams({
      grant_type: "client_credentials",
      client_id: checkText("clientId", options.clientId),
      client_secret: checkText("clientSecret", options.clientSecret),
    }).toString();
    this.#timeoutMs = checkCount("timeoutMs", options.timeoutMs ?? TIMEOUT_MS, 1);
    this.#retries = checkCount("retries", options.retries ?? RETRIES, 0);
    // Look up the global at each call, so that later replacements apply.
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
  }

  /** Send a request and retry it while that is safe, until there is a response. */
  async send<Result>(call: Call<Result>): Promise<Result> {
    let isUnsure = false;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#try(call);
      } catch (error) {
        if (!(error instanceof PixConnectError)) {
          throw error;
        }
        // Once an attempt may have taken effect, a later error response does not rule that out: it may still be running.
        isUnsure ||= error.mayHaveHappened && !isRead(call);
        error.mayHaveHappened = isUnsure;
        error.externalId = call.externalId;
        const delayMs = this.#findDelay(call, error, attempt);
        if (delayMs === undefined || !(await wait(delayMs, call.signal))) {
          throw error;
        }
      }
    }
  }

  iterate<Item>(call: Call<Page<Item>>): Items<Item> {
    return new Items((query) => this.send(query === undefined ? call : turnPage(call, query)));
  }

  async #try<Result>(call: Call<Result>): Promise<Result> {
    let token = call.isAuthorized ? await this.#takeToken("", call.signal) : "";
    let answer = await this.#exchange(call, token);
    if (answer.status === 401 && call.isAuthorized) {
      // Nothing was done: the service checks the token before anything else.
      token = await this.#takeToken(token, call.signal);
      answer = await this.#exchange(call, token);
    }
    return readAnswer(call, answer);
  }

  /** Return the current token, or a new one if it is missing, expiring or rejected. */
  async #takeToken(refused: string, signal: AbortSignal | undefined): Promise<string> {
    if (this.#token !== refused && performance.now() < this.#renewAtMs) {
      return this.#token;
    }
    this.#login ??= this.#logIn().finally(() => {
      this.#login = undefined;
    });
    // An aborted call must not abort the login of the others.
    const readOutcome = await unlessAborted(this.#login, signal);
    try {
      return readOutcome();
    } catch (error) {
      if (error instanceof PixConnectError) {
        error.isOfLogin = true;
        error.mayHaveHappened = false;
      }
      throw error;
    }
  }

  /** Log in once; return a function that gives each waiting call the token or its own error. */
  async #logIn(): Promise<() => string> {
    // Count its lifetime from before the request, since the response may be slow.
    const askedMs = performance.now();
    let answer: Answer;
    try {
      answer = await exchange(this.#fetch, this.#writeLogin());
    } catch (error) {
      if (!(error instanceof NoAnswer)) {
        throw error;
      }
      return () => {
        throw new NoAnswer(error.message, { isTransient: error.isTransient, cause: error });
      };
    }
    try {
      const { token, lifetimeMs } = readAnswer(LOGIN, answer);
      this.#token = token;
      this.#renewAtMs = askedMs + lifetimeMs - Math.min(RENEWED_BEFORE_MS, lifetimeMs / 2);
      return () => token;
    } catch {
      return () => readAnswer(LOGIN, answer).token;
    }
  }

  #exchange(call: Call<unknown>, token: string): Promise<Answer> {
    const headers: Record<string, string> = { Accept: "*/*", "User-Agent": AGENT, ...call.headers };
    if (token !== "") {
      headers["Authorization"] = `Bearer ${token}`;
    }
    if (call.content !== undefined) {
      headers["Content-Type"] = "application/json";
    }
    const query = new URLSearchParams(call.query).toString();
    return exchange(this.#fetch, {
      method: call.method,
      url: `${call.isIdentity ? this.#authUrl : this.#baseUrl}${call.address}${query === "" ? "" : `?${query}`}`,
      headers,
      content: call.content,
      timeoutMs: this.#timeoutMs + call.extraTimeoutMs,
      signal: call.signal,
      isStreamed: call.isStreamed,
    });
  }

  #writeLogin(): Request {
    return {
      method: "POST",
      url: `${this.#authUrl}${LOGIN.address}`,
      headers: { "Content-Type": "application/x-www-form-urlencoded", "User-Agent": AGENT },
      content: this.#grant,
      timeoutMs: this.#timeoutMs,
      signal: undefined,
      isStreamed: false,
    };
  }

  /** Return the time until the next attempt, or undefined if there is none. */
  #findDelay(call: Call<unknown>, error: PixConnectError, attempt: number): number | undefined {
    // A failed login has no effect, so any request may be retried after it.
    const isSafe = isRepeatable(call) || error.isOfLogin;
    if (attempt >= this.#retries || !isSafe || !isTransient(error)) {
      return undefined;
    }
    const askedS = error instanceof ApiError ? (error.retryAfter ?? 0) : 0;
    return askedS > RETRY_AFTER_MAX_S ? undefined : askedS * 1000 + backoff(attempt);
  }
}

/** Whether another try may do better. */
export function isTransient(error: unknown): boolean {
  return error instanceof NoAnswer ? error.isTransient : error instanceof ApiError && TRANSIENT.has(error.code);
}

/** Milliseconds before the next attempt, with jitter: clients that were rejected together would otherwise return together. */
export function backoff(attempt: number): number {
  return (Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** Math.min(attempt, 16)) * (1 + Math.random())) / 2;
}

/** Sleep; return whether the call was not aborted meanwhile. */
export function wait(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve(signal?.aborted !== true);
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
    if (signal?.aborted === true) {
      end();
    }
  });
}

async function unlessAborted<Result>(promise: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) {
    return promise;
  }
  let giveUp = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(new NoAnswer("given up before it was sent", { isTransient: false, cause: signal.reason }));
    signal.addEventListener("abort", giveUp);
  });
  if (signal.aborted) {
    giveUp();
  }
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** The same list, at another page. */
function turnPage<Item>(call: Call<Page<Item>>, query: Readonly<Record<string, string>>): Call<Page<Item>> {
  // A cursor and a page number exclude each other.
  const { page: _, ...others } = call.query;
  return { ...call, query: { ...others, ...query } };
}

function checkUrl(name: string, url: string): string {
  const parts = URL.canParse(url) ? new URL(url) : undefined;
  const isPlain = parts !== undefined && parts.search === "" && parts.hash === "" && parts.username === "";
  if (!isPlain || !["http:", "https:"].includes(parts.protocol)) {
    throw new TypeError(`${name}: must be a URL such as https://pix.example, not ${JSON.stringify(url)}`);
  }
  return url.replace(/\/+$/, "");
}

function checkText(name: string, text: unknown): string {
  // A missing value would be sent as the word "undefined".
  if (typeof text !== "string" || text === "") {
    throw new TypeError(`${name}: must be a text that is not empty`);
  }
  return text;
}

function checkCount(name: string, value: number, least: number): number {
  if (!Number.isSafeInteger(value) || value < least) {
    throw new TypeError(`${name}: must be a whole number from ${least} on, not ${value}`);
  }
  return value;
}
