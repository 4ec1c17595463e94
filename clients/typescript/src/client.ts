/** The client: account operations, and one property per group of operations. */
import { type CallOptions, makeAnyCall } from "./call.js";
import { Account, Charges, Deliveries, Endpoints, Events, Identity, Infractions, Refunds, Transfers } from "./resources.js";
import { Sandbox } from "./sandbox.js";
import { type ClientOptions, Transport } from "./transport.js";

/**
 * A client of the service, which a whole program can share.
 *
 * On a missing response, 429, 503 or `OUTCOME_UNKNOWN` it retries reads, and changes with an `external_id` (generated if you pass
 * none). It never retries other requests.
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

  /** Send a request for which there is no method. Returns `data`; without an envelope the decoded JSON, or text. */
  async request(
    method: string,
    path: string,
    parts: { query?: Readonly<Record<string, unknown>>; body?: unknown } = {},
    options?: CallOptions,
  ): Promise<unknown> {
    return this.deliver(makeAnyCall(method, path, parts, options));
  }
}
