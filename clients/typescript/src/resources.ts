/**
 * The operations, grouped by resource. Each method refers to its operation and its arguments. The reference of the clients is
 * generated from this file and from `sandbox.ts`.
 */
import { randomBytes } from "node:crypto";

import type { CallOptions } from "./call.js";
import { Download, makeStatementCall, type StatementQuery } from "./download.js";
import { type FeedItem, type FeedPart, type FeedQuery, follow, type FollowOptions, makeFeedCall } from "./feed.js";
import type { Items } from "./lists.js";
import { type QueryOf, Resource, type Sender } from "./resource.js";
import type {
  ChangeEndpointRequest,
  Charge,
  CreateChargeRequest,
  CreateDueChargeRequest,
  CreateEndpointRequest,
  CreateRefundRequest,
  CurrentKey,
  DefenceRequest,
  Health,
  HolderBalance,
  Infraction,
  InitiatePixWithAccountDetailsRequest,
  InitiatePixWithKeyRequest,
  InitiatePixWithQRCodeRequest,
  KeySet,
  Liveness,
  PaidBy,
  Readiness,
  Receipt,
  Refund,
  RefundOutcome,
  ReplayRequest,
  Replayed,
  ServerMetadata,
  Statement,
  Transaction,
  Transfer,
  TransferOutcome,
  TransferParties,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
} from "./types.js";

/** Options of requests that return a charge. */
export interface ChargeOptions extends CallOptions {
  /** Whether to return the QR code as a PNG too. */
  base64?: boolean;
}

/** Options of a transfer to a key. */
export interface ByKeyOptions extends CallOptions {
  /** The CPF or CNPJ of the key's owner: the transfer is refused if the key belongs to another owner. */
  payeeTaxId?: string;
}

/** A webhook endpoint to create. */
export type NewEndpoint = Omit<CreateEndpointRequest, "secret"> & Partial<Pick<CreateEndpointRequest, "secret">>;

/** Create, read and list charges. */
export class Charges extends Resource {
  /** Create a charge. A missing `external_id` is generated. */
  create(charge: CreateChargeRequest, options: ChargeOptions = {}): Promise<Charge> {
    return this.ask("create_charge", { query: { base64: options.base64 }, body: charge }, options);
  }

  /** Create a charge with a due date. The amount to pay depends on the day of payment. */
  createDue(charge: CreateDueChargeRequest, options: ChargeOptions = {}): Promise<Charge> {
    return this.ask("create_due_charge", { query: { base64: options.base64 }, body: charge }, options);
  }

  get(id: number, options: ChargeOptions = {}): Promise<Charge> {
    return this.ask("get_charge_by_id", { parameters: { id }, query: { base64: options.base64 } }, options);
  }

  getByExternalId(externalId: string, options: ChargeOptions = {}): Promise<Charge> {
    const query = { base64: options.base64 };
    return this.ask("get_charge_by_external_id", { parameters: { externalId }, query }, options);
  }

  getByTxid(txid: string, options: ChargeOptions = {}): Promise<Charge> {
    return this.ask("get_charge_by_txid", { parameters: { txid }, query: { base64: options.base64 } }, options);
  }

  /** Get the payment of a charge. Raises `NotFound` if it is not paid. */
  payment(id: number, options?: CallOptions): Promise<PaidBy> {
    return this.ask("get_charge_payment", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_charges_by_holder"> = {}, options?: CallOptions): Items<Charge> {
    return this.listing("list_charges_by_holder", { query }, options);
  }

  /** Get the signed JWS that a payer's bank fetches after reading the QR code. */
  location(txid: string, options?: CallOptions): Promise<string> {
    return this.ask("get_location", { parameters: { txid } }, options);
  }

  /** Get the keys that verify the result of `location`. */
  locationKeys(options?: CallOptions): Promise<KeySet> {
    return this.ask("get_location_key_set", {}, options);
  }
}

/** Send Pix, and read what you sent and received. */
export class Transfers extends Resource {
  /** Start a transfer to a Pix key. Its status is PROCESSING at first; an event or `get` shows the outcome. */
  createByKey(transfer: InitiatePixWithKeyRequest, options: ByKeyOptions = {}): Promise<Transfer> {
    const headers = options.payeeTaxId === undefined ? {} : { "X-Payee-Tax-Id": options.payeeTaxId };
    return this.ask("initiate_pix_with_key", { headers, body: transfer }, options);
  }

  /** Start a transfer to an account. */
  createByAccount(transfer: InitiatePixWithAccountDetailsRequest, options?: CallOptions): Promise<Transfer> {
    return this.ask("initiate_pix_with_account_details", { body: transfer }, options);
  }

  /** Start a transfer to the payee of a QR code. */
  createByQrCode(transfer: InitiatePixWithQRCodeRequest, options?: CallOptions): Promise<Transfer> {
    return this.ask("initiate_pix_with_qrcode", { body: transfer }, options);
  }

  get(id: number, options?: CallOptions): Promise<Transfer> {
    return this.ask("get_transfer_by_id", { parameters: { id } }, options);
  }

  getByExternalId(externalId: string, options?: CallOptions): Promise<Transfer> {
    return this.ask("get_transfer_by_external_id", { parameters: { externalId } }, options);
  }

  getByEndToEndId(endToEndId: string, options?: CallOptions): Promise<Transfer> {
    return this.ask("get_transfer_by_end_to_end_id", { parameters: { endToEndId } }, options);
  }

  /** Get the final status and its reason. */
  outcome(id: number, options?: CallOptions): Promise<TransferOutcome> {
    return this.ask("get_transfer_outcome", { parameters: { id } }, options);
  }

  /** Get what the service has about payer and payee, and which party assigned the end-to-end id. */
  parties(id: number, options?: CallOptions): Promise<TransferParties> {
    return this.ask("get_transfer_parties", { parameters: { id } }, options);
  }

  /** Get the receipt of a settled transfer. */
  receipt(id: number, options?: CallOptions): Promise<Receipt> {
    return this.ask("get_transfer_receipt", { parameters: { id } }, options);
  }

  /** Get the receipt as a PDF page in Portuguese. */
  receiptFile(id: number, options?: CallOptions): Promise<Uint8Array> {
    return this.ask("get_transfer_receipt_file", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_transfers_by_holder"> = {}, options?: CallOptions): Items<Transfer> {
    return this.listing("list_transfers_by_holder", { query }, options);
  }

  /** Search transfers of every status and both directions by any of their ids. */
  search(query: QueryOf<"search_transfers"> = {}, options?: CallOptions): Items<Transfer> {
    return this.listing("search_transfers", { query }, options);
  }
}

/** Return received Pix. */
export class Refunds extends Resource {
  /** Return a received Pix in full or in part. A missing `external_id` is generated. */
  create(refund: CreateRefundRequest, options?: CallOptions): Promise<Refund> {
    return this.ask("create_refund", { body: refund }, options);
  }

  get(id: number, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_id", { parameters: { id } }, options);
  }

  /** Get the final status and its reason. */
  outcome(id: number, options?: CallOptions): Promise<RefundOutcome> {
    return this.ask("get_refund_outcome", { parameters: { id } }, options);
  }

  getByExternalId(externalId: string, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_external_id", { parameters: { externalId } }, options);
  }

  getByReturnIdentification(returnIdentification: string, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_return_identification", { parameters: { returnIdentification } }, options);
  }

  /** Get the receipt of a settled refund. */
  receipt(id: number, options?: CallOptions): Promise<Receipt> {
    return this.ask("get_refund_receipt", { parameters: { id } }, options);
  }

  /** Get the receipt as a PDF page in Portuguese. */
  receiptFile(id: number, options?: CallOptions): Promise<Uint8Array> {
    return this.ask("get_refund_receipt_file", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_refunds_by_holder"> = {}, options?: CallOptions): Items<Refund> {
    return this.listing("list_refunds_by_holder", { query }, options);
  }
}

/** Contested Pix (MED) and your answers. */
export class Infractions extends Resource {
  get(id: number, options?: CallOptions): Promise<Infraction> {
    return this.ask("get_infraction_by_id", { parameters: { id } }, options);
  }

  /** Answer an infraction, once and before its deadline. Repeating the same text has no further effect. */
  defend(id: number, defence: DefenceRequest, options?: CallOptions): Promise<Infraction> {
    return this.ask("defend_infraction", { parameters: { id }, body: defence }, options);
  }

  list(query: QueryOf<"list_infractions"> = {}, options?: CallOptions): Items<Infraction> {
    return this.listing("list_infractions", { query }, options);
  }
}

/** Webhook endpoints. */
export class Endpoints extends Resource {
  /** Create a webhook endpoint. The result has the secret that signs its deliveries, generated if missing: store it. */
  async create(endpoint: NewEndpoint, options?: CallOptions): Promise<WebhookEndpoint & { secret: string }> {
    const secret = endpoint.secret ?? `whsec_${randomBytes(32).toString("base64")}`;
    const created = await this.ask("create_webhook_endpoint", { body: { ...endpoint, secret } }, options);
    return { ...created, secret };
  }

  get(id: number, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("get_webhook_endpoint", { parameters: { id } }, options);
  }

  /** Change the given fields. The old secret also signs for one more day. */
  change(id: number, changes: ChangeEndpointRequest, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("change_webhook_endpoint", { parameters: { id }, body: changes }, options);
  }

  delete(id: number, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("delete_webhook_endpoint", { parameters: { id } }, options);
  }

  /** Resend all events of a period. */
  replay(id: number, time: ReplayRequest, options?: CallOptions): Promise<Replayed> {
    return this.ask("replay_events", { parameters: { id }, body: time }, options);
  }

  list(query: QueryOf<"list_webhook_endpoints"> = {}, options?: CallOptions): Items<WebhookEndpoint> {
    return this.listing("list_webhook_endpoints", { query }, options);
  }
}

/** Webhook deliveries. */
export class Deliveries extends Resource {
  get(id: number, options?: CallOptions): Promise<WebhookDelivery> {
    return this.ask("get_webhook_delivery", { parameters: { id } }, options);
  }

  redeliver(id: number, options?: CallOptions): Promise<WebhookDelivery> {
    return this.ask("redeliver_webhook", { parameters: { id } }, options);
  }

  list(id: number, query: QueryOf<"list_webhook_deliveries"> = {}, options?: CallOptions): Items<WebhookDelivery> {
    return this.listing("list_webhook_deliveries", { parameters: { id }, query }, options);
  }
}

/** Events and the event feed. */
export class Events extends Resource {
  readonly #follower: Sender;

  constructor(sender: Sender) {
    super(sender);
    this.#follower = sender;
  }

  list(query: QueryOf<"list_events"> = {}, options?: CallOptions): Items<WebhookEvent> {
    return this.listing("list_events", { query }, options);
  }

  /** Get a page of the feed, starting at a cursor. `wait_s` is how long the service waits for an event, at most 30 seconds. */
  async feed(query: FeedQuery = {}, options?: CallOptions): Promise<FeedPart> {
    return this.deliver(makeFeedCall(query, options)); // read_event_feed
  }

  /**
   * Iterate over events until the signal aborts. After a temporary failure it requests the same cursor again; permanent failures
   * are thrown. Store the `cursor` of the last event that you processed, to continue from there.
   */
  follow(query: FeedQuery = {}, options?: FollowOptions): AsyncGenerator<FeedItem, void, undefined> {
    return follow(this.#follower, query, options); // read_event_feed
  }
}

/** Public keys of the service, and OAuth metadata for other tools. */
export class Identity extends Resource {
  /** Get the keys for `verifyWebhookJws` and `verifyNotice`. */
  keySet(options?: CallOptions): Promise<KeySet> {
    return this.ask("get_key_set", {}, options);
  }

  currentKey(options?: CallOptions): Promise<CurrentKey> {
    return this.ask("get_public_key", {}, options);
  }

  metadata(options?: CallOptions): Promise<ServerMetadata> {
    return this.ask("get_server_metadata", {}, options);
  }
}

/** Operations on the client object itself. */
export class Account extends Resource {
  balance(options?: CallOptions): Promise<HolderBalance> {
    return this.ask("retrieve_current_balance", {}, options);
  }

  /** List the transactions of the account. */
  transactions(query: QueryOf<"list_transactions_by_holder"> = {}, options?: CallOptions): Items<Transaction> {
    return this.listing("list_transactions_by_holder", { query }, options);
  }

  /** Get the account statement with balances. For files use `downloadStatement`. */
  statement(query: Omit<StatementQuery, "format">, options?: CallOptions): Promise<Statement> {
    return this.ask("retrieve_statement", { query }, options);
  }

  /** Download the statement as a file of any length: iterate over its bytes. */
  async downloadStatement(query: StatementQuery, options?: CallOptions): Promise<Download> {
    return this.deliver(makeStatementCall(query, options)); // retrieve_statement
  }

  health(options?: CallOptions): Promise<Health> {
    return this.ask("health_check", {}, options);
  }

  liveness(options?: CallOptions): Promise<Liveness> {
    return this.ask("check_liveness", {}, options);
  }

  /** Get the readiness of the process that answers, and the failed checks if it is not ready. */
  readiness(options?: CallOptions): Promise<Readiness> {
    return this.ask("check_readiness", {}, options);
  }
}
