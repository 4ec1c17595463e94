/** One request over `fetch`: its timeout, and whether it can have reached the service. */
import type { Answer } from "./call.js";
import { NoAnswer } from "./errors.js";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly content: string | undefined;
  /** Timeout without any received data. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly isStreamed: boolean;
}

/** Error codes of connections that were never established, so that nothing was sent. */
const NOT_SENT: ReadonlySet<unknown> = new Set(["EAI_AGAIN", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"]);

/** Send a request once. Returns the response or throws `NoAnswer`. */
export async function exchange(fetch: Fetch, request: Request): Promise<Answer> {
  // A request that cannot be built is an error of the caller, not a missing response.
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
      // Do not follow redirects: their target must not receive the token.
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

/** Aborts on timeout, and when the caller aborts. */
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

  /** Data was received. */
  renew(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#begin();
  }

  /** Suspend the timeout. */
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
        // Do not count the time that the caller needs for a chunk.
        patience.pause();
        if (done) {
          return;
        }
        yield value;
      }
    } catch (error) {
      throw describeFailure(request, patience, error, "the download was aborted");
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
  // Without the query, which may contain personal data.
  return `${request.method} ${request.url.split("?", 1)[0]}`;
}

/** Whether the request certainly did not reach the service. An established connection may fail with the same codes. */
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
