/** One request and its answer over `fetch`: when it ends, and whether it can have reached the service. */
import type { Answer } from "./call.js";
import { NoAnswer } from "./errors.js";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly content: string | undefined;
  /** How long nothing may come. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly isStreamed: boolean;
}

/** Codes after which nothing can have been sent, whatever failed: there was no connection yet. */
const NOT_SENT: ReadonlySet<unknown> = new Set(["EAI_AGAIN", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"]);

/** Send it as it is, once; what comes of it, or a `NoAnswer`. */
export async function exchange(fetch: Fetch, request: Request): Promise<Answer> {
  // What cannot be written as a request is its author's error, and not the service's silence.
  const url = new URL(request.url);
  const headers = new Headers(request.headers);
  const patience = new Patience(request);
  try {
    if (request.signal?.aborted === true) {
      throw new NoAnswer(`${describe(request)}: given up before it was sent`, { isTransient: false, cause: request.signal.reason });
    }
    const response = await fetch(url.href, {
      method: request.method,
      headers,
      // A redirect is an answer: what it leads to must not get the token.
      redirect: "manual",
      signal: patience.signal,
      ...(request.content === undefined ? {} : { body: request.content }),
    });
    const head = { status: response.status, headers: response.headers };
    if (request.isStreamed && response.ok && response.body !== null) {
      return { ...head, content: new Uint8Array(), stream: readChunks(response.body, request, patience) };
    }
    const answer = { ...head, content: new Uint8Array(await response.arrayBuffer()) };
    patience.end();
    return answer;
  } catch (error) {
    patience.end();
    throw error instanceof NoAnswer ? error : describeFailure(request, patience, error);
  }
}

/** Aborts when nothing came for too long, and when the caller gives up. */
class Patience {
  readonly #controller = new AbortController();
  readonly #request: Request;
  readonly #giveUp = (): void => this.#controller.abort(this.#request.signal?.reason);
  #timer: NodeJS.Timeout;
  isOver = false;

  constructor(request: Request) {
    this.#request = request;
    this.#timer = this.#begin();
    request.signal?.addEventListener("abort", this.#giveUp);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something came. */
  renew(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#begin();
  }

  /** Nothing is waited for. */
  pause(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.pause();
    this.#request.signal?.removeEventListener("abort", this.#giveUp);
  }

  #begin(): NodeJS.Timeout {
    return setTimeout(() => {
      this.isOver = true;
      this.#controller.abort();
    }, this.#request.timeoutMs);
  }
}

function readChunks(
  body: ReadableStream<Uint8Array>,
  request: Request,
  patience: Patience,
): { chunks: AsyncIterable<Uint8Array>; cancel: () => Promise<void> } {
  const reader = body.getReader();
  async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        patience.renew();
        const { done, value } = await reader.read();
        // Who takes a piece may take its time with it.
        patience.pause();
        if (done) {
          return;
        }
        yield value;
      }
    } catch (error) {
      throw describeFailure(request, patience, error, "the file broke off");
    } finally {
      patience.end();
      await reader.cancel().catch(() => undefined);
    }
  }
  patience.pause();
  return {
    chunks: read(),
    cancel: async () => {
      patience.end();
      await reader.cancel().catch(() => undefined);
    },
  };
}

function describeFailure(request: Request, patience: Patience, error: unknown, what = ""): NoAnswer {
  const prefix = `${describe(request)}: ${what === "" ? "" : `${what}: `}`;
  if (patience.isOver) {
    return new NoAnswer(`${prefix}nothing came for ${request.timeoutMs / 1000} s`, { mayHaveHappened: true, cause: error });
  }
  if (request.signal?.aborted === true) {
    return new NoAnswer(`${prefix}given up`, { mayHaveHappened: true, isTransient: false, cause: error });
  }
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const text = (cause instanceof Error && cause.message !== "" ? cause.message : undefined) ?? codeOf(cause) ?? String(error);
  return new NoAnswer(`${prefix}${text}`, { mayHaveHappened: !isUnsent(cause), cause: error });
}

function describe(request: Request): string {
  // Without the query: it may name people.
  return `${request.method} ${request.url.split("?", 1)[0]}`;
}

/** Whether nothing can have reached the service. Only what is certain: a connection that stood may break with the same codes. */
function isUnsent(cause: unknown): boolean {
  if (cause instanceof AggregateError && cause.errors.length > 0) {
    return cause.errors.every(isUnsent);
  }
  return NOT_SENT.has(codeOf(cause)) || (cause as { syscall?: unknown } | null)?.syscall === "connect";
}

function codeOf(cause: unknown): string | undefined {
  const code = (cause as { code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}
