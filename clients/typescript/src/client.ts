/** The client: the operations of the account itself, and the groups of all others. */
import { type CallOptions, makeAnyCall } from "./call.js";
import { Account, Charges, Deliveries, Endpoints, Events, Identity, Infractions, Refunds, Transfers } from "./resources.js";
import { Sandbox } from "./sandbox.js";
import { type ClientOptions, Transport } from "./transport.js";

/**
 * One client of the service; all of a program may share it.
 *
 * Reads, and what has an `external_id` (one is made where you give none), are sent again when no answer comes, on 429, 503 and
 * `OUTCOME_UNKNOWN`; nothing else ever is.
 */
export class Client extends Account {
  readonly charges: Charges;
  readonly transfers: Transfers;
  readonly refunds: Refunds;
  readonly infractions: Infractions;
  readonly endpoints: Endpoints;
  readonly deliveries: Deliveries;
  readonly events: Events;
  readonly identity: Identity;
  readonly sandbox: Sandbox;

  constructor(options: ClientOptions) {
    const transport = new Transport(options);
    super(transport);
    this.charges = new Charges(transport);
    this.transfers = new Transfers(transport);
    this.refunds = new Refunds(transport);
    this.infractions = new Infractions(transport);
    this.endpoints = new Endpoints(transport);
    this.deliveries = new Deliveries(transport);
    this.events = new Events(transport);
    this.identity = new Identity(transport);
    this.sandbox = new Sandbox(transport);
  }

  /** Ask for anything else: `data` of the answer; where it has no envelope the JSON as it is, or text. */
  async request(
    method: string,
    path: string,
    parts: { query?: Readonly<Record<string, unknown>>; body?: unknown } = {},
    options?: CallOptions,
  ): Promise<unknown> {
    return this.deliver(makeAnyCall(method, path, parts, options));
  }
}
