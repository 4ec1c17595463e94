/** Streamed downloads of any length. An aborted download raises an error instead of ending early. */
import { type Answer, type Call, type CallOptions, makeCall } from "./call.js";
import type { QueryOf } from "./resource.js";

export type StatementQuery = QueryOf<"retrieve_statement">;

/** Iterate over the bytes with `for await`, once, or call `cancel`. */
export class Download implements AsyncIterable<Uint8Array> {
  readonly mediaType: string;
  /** The file name that the service suggests, without a path; empty if there is none. */
  readonly fileName: string;
  readonly #answer: Answer;

  constructor(answer: Answer) {
    this.#answer = answer;
    this.mediaType = answer.headers.get("content-type") ?? "";
    const suggested = /filename="([^"]*)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "";
    this.fileName = suggested.replaceAll("\\", "/").split("/").at(-1) ?? "";
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#answer.stream !== undefined) {
      yield* this.#answer.stream.chunks;
    }
  }

  async cancel(): Promise<void> {
    await this.#answer.stream?.cancel();
  }
}

export function makeStatementCall(query: StatementQuery, options?: CallOptions): Call<Download> {
  const call = makeCall<Download>("retrieve_statement", { query }, options);
  return { ...call, isStreamed: true, read: (answer) => new Download(answer) };
}
