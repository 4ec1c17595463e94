/** Base class of the groups of operations: sending, and how a method refers to its operation. */
import { type AnswerOf, type Call, type CallOptions, makeCall, type Parts } from "./call.js";
import type { Items, Page } from "./lists.js";
import type { OperationId } from "./operations.js";

export interface Sender {
  send<Result>(call: Call<Result>): Promise<Result>;
  iterate<Item>(call: Call<Page<Item>>): Items<Item>;
}

/** A group of operations. */
export class Resource {
  readonly #sender: Sender;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  /** Call an operation of the document. */
  protected async ask<Id extends OperationId>(id: Id, parts: Parts<Id>, options?: CallOptions): Promise<AnswerOf<Id>> {
    return this.deliver(makeCall<AnswerOf<Id>>(id, parts, options));
  }

  /** List by an operation of the document. */
  protected listing<Id extends OperationId>(id: Id, parts: Parts<Id>, options?: CallOptions): Items<AnswerOf<Id>> {
    return this.#sender.iterate(makeCall<Page<AnswerOf<Id>>>(id, parts, options));
  }

  /** Send a prepared call. */
  protected async deliver<Result>(call: Call<Result>): Promise<Result> {
    return this.#sender.send(call);
  }
}

/** The query type of an operation. */
export type QueryOf<Id extends OperationId> = Parts<Id> extends { query?: infer Taken } ? NonNullable<Taken> : never;
