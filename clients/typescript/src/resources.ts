/**
 * The operations, by what they are about. Each method names its operation and says what that takes; the reference of clients is
 * made of this file and of `sandbox.ts`.
 */
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

/** For a charge that is answered. */
export interface ChargeOptions extends CallOptions {
  /** Whether to draw the QR code as a PNG, too. */
  base64?: boolean;
}

/** For a transfer to a key. */
export interface ByKeyOptions extends CallOptions {
  /** The CPF or CNPJ of the key's owner: the transfer is refused if the key belongs to another owner. */
  payeeTaxId?: string;
}

/** Ask to be paid. */
export class Charges extends Resource {
  /** Make a charge; an `external_id` that is left out is made. */
  create(charge: CreateChargeRequest, options: ChargeOptions = {}): Promise<Charge> {
    return this.ask("create_charge", { query: { base64: options.base64 }, body: charge }, options);
  }

  /** Make a charge with a due date, which asks for another amount on each day. */
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

  /** By what it was paid; `NotFound` if it is not paid. */
  payment(id: number, options?: CallOptions): Promise<PaidBy> {
    return this.ask("get_charge_payment", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_charges_by_holder"> = {}, options?: CallOptions): Items<Charge> {
    return this.listing("list_charges_by_holder", { query }, options);
  }

  /** What the QR code leads a payer's bank to: a signed JWS. */
  location(txid: string, options?: CallOptions): Promise<string> {
    return this.ask("get_location", { parameters: { txid } }, options);
  }

  /** The keys that verify `location`. */
  locationKeys(options?: CallOptions): Promise<KeySet> {
    return this.ask("get_location_key_set", {}, options);
  }
}

/** Send Pix, and see what you sent and received. */
export class Transfers extends Resource {
  /** Start a transfer to a Pix key. It is PROCESSING at first; an event, or `get`, says how it ended. */
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

  /** How it ended, and why. */
  outcome(id: number, options?: CallOptions): Promise<TransferOutcome> {
    return this.ask("get_transfer_outcome", { parameters: { id } }, options);
  }

  /** What is known of both its sides, and whose its name is. */
  parties(id: number, options?: CallOptions): Promise<TransferParties> {
    return this.ask("get_transfer_parties", { parameters: { id } }, options);
  }

  /** Its receipt, once it has settled. */
  receipt(id: number, options?: CallOptions): Promise<Receipt> {
    return this.ask("get_transfer_receipt", { parameters: { id } }, options);
  }

  /** The same as a page of PDF, in Portuguese. */
  receiptFile(id: number, options?: CallOptions): Promise<Uint8Array> {
    return this.ask("get_transfer_receipt_file", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_transfers_by_holder"> = {}, options?: CallOptions): Items<Transfer> {
    return this.listing("list_transfers_by_holder", { query }, options);
  }

  /** Transfers of every status, both directions, by whatever names them. */
  search(query: QueryOf<"search_transfers"> = {}, options?: CallOptions): Items<Transfer> {
    return this.listing("search_transfers", { query }, options);
  }
}

/** Give back what you received. */
export class Refunds extends Resource {
  /** Return a received Pix, wholly or in part; an `external_id` that is left out is made. */
  create(refund: CreateRefundRequest, options?: CallOptions): Promise<Refund> {
    return this.ask("create_refund", { body: refund }, options);
  }

  get(id: number, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_id", { parameters: { id } }, options);
  }

  getByExternalId(externalId: string, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_external_id", { parameters: { externalId } }, options);
  }

  getByReturnIdentification(returnIdentification: string, options?: CallOptions): Promise<Refund> {
    return this.ask("get_refund_by_return_identification", { parameters: { returnIdentification } }, options);
  }

  /** Its receipt, once it has been returned. */
  receipt(id: number, options?: CallOptions): Promise<Receipt> {
    return this.ask("get_refund_receipt", { parameters: { id } }, options);
  }

  /** The same as a page of PDF, in Portuguese. */
  receiptFile(id: number, options?: CallOptions): Promise<Uint8Array> {
    return this.ask("get_refund_receipt_file", { parameters: { id } }, options);
  }

  list(query: QueryOf<"list_refunds_by_holder"> = {}, options?: CallOptions): Items<Refund> {
    return this.listing("list_refunds_by_holder", { query }, options);
  }
}

/** Pix that somebody contests, and what you answer. */
export class Infractions extends Resource {
  get(id: number, options?: CallOptions): Promise<Infraction> {
    return this.ask("get_infraction_by_id", { parameters: { id } }, options);
  }

  /** Answer it, once and in time; the same words again are no second answer. */
  defend(id: number, defence: DefenceRequest, options?: CallOptions): Promise<Infraction> {
    return this.ask("defend_infraction", { parameters: { id }, body: defence }, options);
  }

  list(query: QueryOf<"list_infractions"> = {}, options?: CallOptions): Items<Infraction> {
    return this.listing("list_infractions", { query }, options);
  }
}

/** Where events are posted to. */
export class Endpoints extends Resource {
  /** Have events posted to an address. The secret signs them, and is never shown again. */
  create(endpoint: CreateEndpointRequest, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("create_webhook_endpoint", { body: endpoint }, options);
  }

  get(id: number, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("get_webhook_endpoint", { parameters: { id } }, options);
  }

  /** Change what is given; for a day a new secret signs beside the old one. */
  change(id: number, changes: ChangeEndpointRequest, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("change_webhook_endpoint", { parameters: { id }, body: changes }, options);
  }

  delete(id: number, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.ask("delete_webhook_endpoint", { parameters: { id } }, options);
  }

  /** Send all events of that time again. */
  replay(id: number, time: ReplayRequest, options?: CallOptions): Promise<Replayed> {
    return this.ask("replay_events", { parameters: { id }, body: time }, options);
  }

  list(query: QueryOf<"list_webhook_endpoints"> = {}, options?: CallOptions): Items<WebhookEndpoint> {
    return this.listing("list_webhook_endpoints", { query }, options);
  }
}

/** Events on their way to your endpoints. */
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

/** What happened. */
export class Events extends Resource {
  readonly #follower: Sender;

  constructor(sender: Sender) {
    super(sender);
    this.#follower = sender;
  }

  list(query: QueryOf<"list_events"> = {}, options?: CallOptions): Items<WebhookEvent> {
    return this.listing("list_events", { query }, options);
  }

  /** A part of the feed, from where a cursor leads; `wait_s` lets the service wait for an event, 30 seconds at most. */
  async feed(query: FeedQuery = {}, options?: CallOptions): Promise<FeedPart> {
    return this.deliver(makeFeedCall(query, options)); // read_event_feed
  }

  /**
   * Every event as it comes, without an end but the signal's. A break is waited for, and the same cursor asked again; what waiting
   * does not mend is thrown. Keep the `cursor` of the last event that you have dealt with: it goes on from there.
   */
  follow(query: FeedQuery = {}, options?: FollowOptions): AsyncGenerator<FeedItem, void, undefined> {
    return follow(this.#follower, query, options); // read_event_feed
  }
}

/** What verifies the service's signatures, and how to log in with other tools. */
export class Identity extends Resource {
  /** The keys that `verifyWebhookJws` and `verifyNotice` take. */
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

/** The operations of a client itself. */
export class Account extends Resource {
  balance(options?: CallOptions): Promise<HolderBalance> {
    return this.ask("retrieve_current_balance", {}, options);
  }

  /** The changes of the account's funds. */
  transactions(query: QueryOf<"list_transactions_by_holder"> = {}, options?: CallOptions): Items<Transaction> {
    return this.listing("list_transactions_by_holder", { query }, options);
  }

  /** The account's history with balances; `downloadStatement` is for files. */
  statement(query: Omit<StatementQuery, "format">, options?: CallOptions): Promise<Statement> {
    return this.ask("retrieve_statement", { query }, options);
  }

  /** The statement as a file, of any length: iterate over its octets. */
  async downloadStatement(query: StatementQuery, options?: CallOptions): Promise<Download> {
    return this.deliver(makeStatementCall(query, options)); // retrieve_statement
  }

  health(options?: CallOptions): Promise<Health> {
    return this.ask("health_check", {}, options);
  }

  liveness(options?: CallOptions): Promise<Liveness> {
    return this.ask("check_liveness", {}, options);
  }

  /** Whether the process that answers should get requests, and if not, why. */
  readiness(options?: CallOptions): Promise<Readiness> {
    return this.ask("check_readiness", {}, options);
  }
}
