// Written by `make docs` of the service's OpenAPI document. Do not edit it.

/** A point in time that is sent: a `Date`, or RFC 3339 with an offset. What is answered is always text, with microseconds. */
export type Instant = Date | string;

export type AccountType = "CHECKING" | "SAVINGS" | "SALARY" | "TRANSACTIONAL";

/** An event `adjustment.*`. */
export interface AdjustmentEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "adjustment.posted";
  /** The facts. */
  payload: AdjustmentPayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The payload of ``adjustment.*`` events. */
export interface AdjustmentPayload {
  /** The adjustment's id: that of its line in your statement, where it has one. Below 2^53. */
  id: number;
  /** The source of the error, `bank_error` or `our_error`; `found`; or `written_off`, by which the house takes it over. */
  kind: string;
  /** IN credits you, OUT debits you. */
  impact_type: Direction;
  /** By how much. Cents. */
  amount: number;
  /** The part that exceeded your balance: you owe it, and incoming money repays it first. Cents. */
  deficit: number;
  /** The id of the adjustment that it undoes. */
  opposite_of?: number;
  /** Only movements that moved money are announced. */
  status: "POSTED";
  /** When it was posted: it is never dated back. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The fields to change; the others stay. */
export interface ChangeEndpointRequest {
  /** A public https address. */
  url?: string;
  /** The old one signs beside it for 24 hours. */
  secret?: string;
  /** The types of events that are posted to it. Beyond the contract's there are `movement.posted`, `infraction.opened`, `infraction.answered`, `infraction.taken`, `infraction.released`, `infraction.reminded`, `transfer.in.held`, `adjustment.posted`, `transfer.in.completed`, `charge.diverged`, `transfer.out.waiting`. */
  event_types?: EventName[];
  /** Pause or resume. */
  status?: "active" | "inactive";
}

/** A request to be paid, with its QR code. */
export interface Charge {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** The amount to be paid. Cents, without a fraction. */
  amount: number;
  /** The Pix key that receives the payment, normalised. */
  key: string;
  /** Your own name for it, or the one that the service made. */
  external_id: string;
  /** PENDING until it is paid (APPROVED), expires or is removed (both EXPIRED); RETURNED when all was refunded. */
  status: "APPROVED" | "EXPIRED" | "PENDING" | "RETURNED";
  /** The text of the QR code, to be copied and pasted. */
  emvqrcps: string;
  /** The QR code as a PNG in base64 with `base64=true`, otherwise empty. */
  base64image: string;
  /** Its txid, its name in the Pix scheme. */
  transaction_identification: string;
  /** The payer whom the code names. */
  payer?: ChargePayer;
}

/** A discount until a date. */
export interface ChargeDatedDiscount {
  /** The last day on which it is given, or rolls; not later than the due date. A date in Sao Paulo, as YYYY-MM-DD. */
  until: string;
  /** Less than the amount, or than 100 %. Cents of a sum, hundredths of a per cent. */
  value: number;
}

/** Taken off when it is paid early. */
export interface ChargeDiscount {
  /** Until dates, or for each day before the due date. */
  kind: "percentage_a_business_day" | "percentage_a_day" | "percentage_until_a_date" | "sum_a_business_day" | "sum_a_day" | "sum_until_a_date";
  /** For each day, of a kind by the day. Cents of a sum, hundredths of a per cent. */
  value?: number;
  /** Of a kind until dates: the earliest that has not passed is given. One without business rolls to the next business day. */
  dated?: ChargeDatedDiscount[];
}

/** An event `qrcode.*`. */
export interface ChargeEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "qrcode.pending" | "qrcode.approved" | "qrcode.expired";
  /** The facts. */
  payload: ChargePayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** Added once, from the first day after the due date on. */
export interface ChargeFine {
  /** `percentage` is of the amount less the rebate. */
  kind: "percentage" | "sum";
  /** 250 is R$ 2,50, or 2.5 %. Cents of a sum, hundredths of a per cent. */
  value: number;
}

/** Added for each day after the due date. */
export interface ChargeInterest {
  /** A month has 30 calendar or 21 business days, a year 365 or 252. */
  kind: "percentage_a_business_day" | "percentage_a_day" | "percentage_a_month" | "percentage_a_month_of_business_days" | "percentage_a_year" | "percentage_a_year_of_business_days" | "sum_a_business_day" | "sum_a_day";
  /** 100 is R$ 1,00, or 1 %. Cents of a sum, hundredths of a per cent. */
  value: number;
}

/** The payer. */
export interface ChargePayer {
  /** Free text. */
  name: string;
  /** CPF of 11 digits or CNPJ of 14 characters, without a mask. */
  tax_id: string;
}

/** The payload of ``qrcode.*`` events. */
export interface ChargePayload {
  /** The charge's id. Below 2^53. */
  id: number;
  /** Its txid. */
  transaction_identification: string;
  /** Your own name for it, or the one that the service made. */
  external_id: string;
  /** The status that this event announces. */
  status: "APPROVED" | "EXPIRED" | "PENDING" | "RETURNED";
  /** When the charge was made. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** Taken off on every day. */
export interface ChargeRebate {
  /** `percentage` is of the amount. */
  kind: "percentage" | "sum";
  /** Less than the amount, or than 100 %. Cents of a sum, hundredths of a per cent. */
  value: number;
}

/** One check and its result. */
export interface CheckResult {
  /** The check's result. */
  status: HealthStatus;
  /** How long the check took. */
  duration: string;
  /** The failure, if there is one. */
  error?: string;
}

/** A move of the clock. Exactly one of the three. */
export interface ClockRequest {
  /** Forward by this many seconds. */
  advance_s?: number;
  /** Forward to this instant. RFC 3339, UTC, with microseconds. */
  now?: Instant;
  /** Back to real time. */
  reset?: boolean;
}

/** The other side of a statement's line. */
export interface Counterparty {
  /** The account's owner. */
  name: string;
  /** CPF or CNPJ. */
  tax_id: string;
  /** The institution. */
  ispb: string;
}

/** A charge to be made. */
export interface CreateChargeRequest {
  /** The amount to be paid. Cents, without a fraction. */
  amount: number;
  /** One of your own Pix keys: it receives the payment. */
  key: string;
  /** The payer whom the code names. */
  payer?: ChargePayer;
  /** If ``None``, the service makes one. Your own unique name for it, which makes a repeated request safe; the service makes one otherwise. */
  external_id?: string;
}

/** A charge with a due date to be made. */
export interface CreateDueChargeRequest {
  /** The amount on the due date, before additions and deductions. Cents, without a fraction. */
  amount: number;
  /** One of your own Pix keys: it receives the payment. */
  key: string;
  /** The debtor. */
  payer: ChargePayer;
  /** Your own unique name for it, which is its txid too and makes a repeated request safe; the service makes one otherwise. 26 to 35 letters and digits. */
  external_id?: string;
  /** The last day on which it is not late: today or later. On a day without business it rolls to the next business day. A date in Sao Paulo, as YYYY-MM-DD. */
  due_on: string;
  /** Calendar days after the due date on which it may still be paid. */
  valid_days?: number;
  /** Added once it is late. */
  fine?: ChargeFine;
  /** Added for each day that it is late. */
  interest?: ChargeInterest;
  /** Taken off on every day. */
  rebate?: ChargeRebate;
  /** Taken off when it is paid early. */
  discount?: ChargeDiscount;
}

/** A webhook endpoint to be made. */
export interface CreateEndpointRequest {
  /** A public https address. */
  url: string;
  /** Known to you and the service only; it signs deliveries. One that begins with `whsec_` is the base64 of 24 to 64 bytes. */
  secret: string;
  /** The types of events that are posted to it. Beyond the contract's there are `movement.posted`, `infraction.opened`, `infraction.answered`, `infraction.taken`, `infraction.released`, `infraction.reminded`, `transfer.in.held`, `adjustment.posted`, `transfer.in.completed`, `charge.diverged`, `transfer.out.waiting`. */
  event_types: EventName[];
}

/** A refund to be made. */
export interface CreateRefundRequest {
  /** Names a Pix that you received. */
  end_to_end_id: string;
  /** The amount to return: all of it, or a part. Cents, without a fraction. */
  amount: number;
  /** Your own unique name for it, which makes a repeated request safe; the service makes one otherwise. */
  external_id?: string;
  /** MD06 requested by the payer, BE08 error of the bank, FR01 fraud, SL02 a withdrawal or change went wrong. */
  reason?: RefundReason;
  /** For the payer to read. */
  description?: string;
}

/** That an institution holds a payment as suspect. */
export interface CreditHold {
  /** The payer may get it back: deliver once it is released, and not before. */
  deliver: "NOT_YET";
  /** When the institution releases or returns it at the latest. RFC 3339, UTC, with microseconds. */
  until: string;
  /** The charge that it will pay once it is released. Until then the charge is pending, never expires, and no other payment can pay it. */
  charge_id?: number;
  /** The txid that the payment names. */
  transaction_identification?: string;
  /** Your own name for the charge, or the one that the service made. */
  external_id?: string;
}

/** The present signing key, and all keys needed to verify earlier signatures. */
export interface CurrentKey {
  /** The key's name, as in the headers of its signatures. */
  kid: string;
  /** The key's family. */
  kty: "EC";
  /** The key's curve. */
  crv: "P-256";
  /** The point's x, base64url. */
  x: string;
  /** The point's y, base64url. */
  y: string;
  /** The algorithm it signs with. */
  alg: "ES256";
  /** Its use. */
  use: "sig";
  /** The same key as PEM. */
  pem: string;
  /** Every key still needed to verify something, this one included. */
  keys: PublishedKey[];
}

/** The institution's decision by hand. */
export interface DecisionRequest {
  /** Return the held money, release it, or block more of the claim. */
  decision: "hold" | "release" | "take";
  /** How much; all that is held if left out. Cents, without a fraction. */
  amount?: number;
}

/** Your answer. */
export interface DefenceRequest {
  /** Why the Pix is rightly yours; `text_length_max` is the maximum length. */
  text: string;
}

/** One POST and its result. */
export interface DeliveryAttempt {
  /** From 1; redelivery counts on. */
  number: number;
  /** When it began. RFC 3339, UTC, with microseconds. */
  time: string;
  /** The answer's status, if there was an answer. */
  status_code?: number;
  /** From looking up the name to the last byte. */
  duration: string;
  /** The first KiB of the answer. */
  response: string;
  /** Why it failed. */
  error?: string;
}

/** Money put into your account. */
export interface Deposit {
  /** The transaction's id. Below 2^53. */
  id: number;
  /** How much was put in. Cents, without a fraction. */
  amount: number;
  /** When it was put in. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** Money to be put into your account. */
export interface DepositRequest {
  /** How much to put in. Cents, without a fraction. */
  amount: number;
}

export type Direction = "IN" | "OUT";

/** An event `charge.*`. */
export interface DivergenceEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "charge.diverged";
  /** The facts. */
  payload: DivergencePayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The payload of ``charge.*`` events. */
export interface DivergencePayload {
  /** The id of the transfer that brought the money. Below 2^53. */
  id: number;
  /** Its name on the whole network. */
  end_to_end_id: string;
  /** The same in everything that belongs to this transfer, its refunds included. */
  correlation_id: string;
  /** The differences. It has paid the charge that was `EXPIRED` (paid after its end), `REMOVED`, or asked for an `OTHER_AMOUNT`. It has paid none where that was `PAID_BEFORE`, or `NEVER_OPENED`: no charge of this txid exists here. */
  divergences: ("EXPIRED" | "NEVER_OPENED" | "OTHER_AMOUNT" | "PAID_BEFORE" | "REMOVED")[];
  /** The charge's txid; where there is no charge, the one that the payment names. */
  transaction_identification: string;
  /** The charge's id, where there is one. */
  charge_id?: number;
  /** Your own name for the charge, or the one that the service made. */
  external_id?: string;
  /** How much was paid. Cents. */
  amount: number;
  /** The charge's requested amount. Cents. */
  asked_amount?: number;
  /** The transfer's: the money is in your account. */
  status: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED";
  /** When it settled at the institution. RFC 3339, UTC, with microseconds. */
  settle_timestamp: string;
  /** When it was recorded here. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

export type EndpointStatus = "active" | "inactive" | "disabled";

export type ErrorCode = "BAD_REQUEST" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "CURSOR_EXPIRED" | "PAYLOAD_TOO_LARGE" | "EXTERNAL_ID_CONFLICT" | "AMOUNT_OUT_OF_RANGE" | "LIMIT_EXCEEDED" | "INVALID_PIX_KEY" | "PIX_KEY_NOT_OWNED" | "PIX_KEY_NOT_FOUND" | "INVALID_TAX_ID" | "INVALID_ACCOUNT" | "INVALID_QR_CODE" | "QR_CODE_EXPIRED" | "QR_CODE_ALREADY_PAID" | "AMOUNT_MISMATCH" | "SAME_ACCOUNT" | "HOLDER_BLOCKED" | "ORIGINAL_NOT_REFUNDABLE" | "REFUND_EXCEEDS_ORIGINAL" | "REFUND_WINDOW_CLOSED" | "REFUND_INFRACTION_OPEN" | "INSUFFICIENT_FUNDS" | "INVALID_WEBHOOK_URL" | "INFRACTION_ANSWERED" | "INFRACTION_CLOSED" | "RATE_LIMITED" | "INTERNAL_ERROR" | "SERVICE_UNAVAILABLE" | "OUTCOME_UNKNOWN";

/** Facts missing in the payload; fields that do not apply are omitted. */
export interface EventDetail {
  /** For a charge: its amount. Cents, without a fraction. */
  amount?: number;
  /** For a paid charge: the payment. */
  paid_by?: PaidBy;
  /** For an incoming transfer: the payer. */
  debit_party?: TransferParty;
  /** For an outgoing transfer: the payee. */
  credit_party?: TransferParty;
  /** For a transfer that pays a charge of yours: the charge. Below 2^53. */
  charge_id?: number;
  /** For a transfer by QR code: the code's txid. */
  transaction_identification?: string;
  /** For a refund: the transfer that it returns. Below 2^53. */
  transfer_id?: number;
  /** For a refund: its reason. */
  return_reason?: RefundReason;
  /** For a refund: its author's words. */
  description?: string;
  /** For a transfer or refund that failed: why. */
  outcome?: EventOutcome;
}

/** A part of the feed. */
export interface EventFeed {
  /** In the order of the feed; of one resource, in the order in which they happened. */
  events: FeedEvent[];
  /** Goes on after this part. Keep it, also where there were no events. */
  cursor: string;
  /** Whether there is more now. A filter may leave a part empty before the end. */
  has_more: boolean;
}

export type EventName = "qrcode.pending" | "qrcode.approved" | "qrcode.expired" | "transfer.in.processing" | "transfer.in.confirmed" | "transfer.in.error" | "transfer.out.processing" | "transfer.out.confirmed" | "transfer.out.error" | "refund.in.processing" | "refund.in.returned" | "refund.in.error" | "refund.out.processing" | "refund.out.returned" | "refund.out.error";

/** Why a transfer or refund failed. */
export interface EventOutcome {
  /** The rail's code, or the service's. */
  code: string;
  /** The same as a sentence. */
  reason: string;
}

/** The messages that a rule matches; missing fields match all. */
export interface FaultMatch {
  /** The payee's Pix key. */
  key?: string;
  /** The message's amount (``amount`` on the wire). */
  amount?: number;
  /** The kind of message. */
  operation?: "callback" | "face_read" | "face_token" | "face_write" | "lookup" | "payment" | "query" | "refund" | "resolve" | "return" | "submit";
}

/** One way in which the network misbehaves. */
export interface FaultRule {
  /** The effect. One of reject:<SPI code>, delay:<ms>, no_answer, lost, duplicate_answer, out_of_order, unavailable, two_steps:<ms>, cancel:<SPI code> or cancel:<SPI code>:<ms>, fee:<cents>, dated_back:<s>, suspect:release or suspect:return, or either with :<ms>; at faces also html:before, html:after, too_many:<s>, token_ended, lag:<s>, page_shift */
  effect: string;
  /** To which messages. */
  match?: FaultMatch;
  /** The affected share of them, from 0 to 1. */
  probability?: number;
  /** To how many of them at most; counts down. */
  times?: number;
}

/** How the network misbehaves: the first rule that matches wins. One set for all holders. */
export interface FaultRules {
  /** They are tried in this order. */
  rules: FaultRule[];
}

/** An event of the feed: the webhooks' contents, and more. */
export interface FeedEvent {
  /** The event's id, as in webhooks. Below 2^53. */
  id: number;
  /** Its type. */
  name: EventName;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** Its subject. */
  resource: "adjustment" | "charge" | "infraction" | "movement" | "refund" | "transfer";
  /** The id of that charge, transfer, refund or movement. Below 2^53. */
  resource_id: number;
  /** The payload of the event's family, such as `TransferPayload`, as webhooks post it. */
  payload: Record<string, unknown>;
  /** Facts missing in the payload. */
  detail: EventDetail;
  /** Continues after this event: store it together with your own record of the event. */
  cursor: string;
}

/** The state of the service. */
export interface Health {
  /** `unhealthy` without its database; `degraded` if anything else fails. */
  status: HealthStatus;
  /** How long all checks took. */
  duration: string;
  /** When the checks were made. RFC 3339, UTC, with microseconds. */
  timestamp: string;
  /** By name: `database`, `disk`, `clock`, `rail`, `workers`, `webhooks`, `signing_key`, `partitions`, `database_loss`, `books`, `feed`, where a standby is read from `standby`, and in live mode `settings` and `institutions`. */
  checks: Record<string, CheckResult>;
  /** The process that answered. */
  system: SystemInfo;
}

export type HealthStatus = "healthy" | "degraded" | "unhealthy";

/** The account's balance. */
export interface HolderBalance {
  /** Money that can be spent. Cents. */
  available_funds: number;
  /** Money in the account, reserved and blocked money included. Cents. */
  current_funds: number;
  /** Whether money may come in. */
  able_to_deposit: boolean;
  /** Whether the account may lend. */
  able_to_lend: boolean;
  /** Whether money may go out. */
  able_to_withdraw: boolean;
  /** When it last changed, reservations included. RFC 3339, UTC, with microseconds. */
  last_modified: string;
}

/** A holder for tests; all of it may be left out. */
export interface HolderRequest {
  /** The account's owner. */
  name?: string;
  /** The owner's CPF or CNPJ, without a mask. */
  tax_id?: string;
  /** The initial balance of the account; none if omitted. Cents, without a fraction. */
  balance?: number;
  /** Its client's scopes; all of them if left out. */
  scopes?: ("charge.read" | "charge.write" | "cob.read" | "cob.write" | "cobv.read" | "cobv.write" | "infraction.read" | "infraction.write" | "ledger.read" | "lotecobv.read" | "lotecobv.write" | "payloadlocation.read" | "payloadlocation.write" | "pix.read" | "pix.write" | "refund.read" | "refund.write" | "transfer.read" | "transfer.write" | "webhook.read" | "webhook.write")[];
}

/** A contested Pix that you received; your institution judges it. */
export interface Infraction {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** Your institution's name for it. */
  infraction_id: string;
  /** The Pix. */
  end_to_end_id: string;
  /** Its transfer. Below 2^53. */
  transfer_id: number;
  /** The charge that it has paid. Below 2^53. */
  charge_id?: number;
  /** The txid that it names. */
  transaction_identification?: string;
  /** Your own name for the charge. */
  external_id?: string;
  /** How much is contested. Cents, without a fraction. */
  amount: number;
  /** How much of your money is blocked for it. Cents. */
  held: number;
  /** How much your institution has given back. Cents. */
  taken: number;
  /** That the payer was deceived, or that the Pix went wrong by a fault. */
  reason: "fraud" | "operational_flaw";
  /** The situation, in the words of the key directory. */
  situation: "account_takeover" | "coercion" | "fraudulent_access" | "other" | "scam";
  /** The payer's words. */
  words?: string;
  /** TAKEN and RELEASED are its ends. */
  status: "ANSWERED" | "OPEN" | "RELEASED" | "TAKEN";
  /** When it was opened. RFC 3339, UTC, with microseconds. */
  open_timestamp: string;
  /** Until when you can answer. RFC 3339, UTC, with microseconds. */
  respond_by: string;
  /** How many characters of an answer your institution takes. */
  text_length_max: number;
  /** Your answer. */
  defence?: InfractionDefence;
  /** When it was recorded. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** When it last changed. RFC 3339, UTC, with microseconds. */
  last_modified: string;
}

/** Your answer. */
export interface InfractionDefence {
  /** Your words. */
  text: string;
  /** SENDING until your institution has it. */
  status: "REFUSED" | "SENDING" | "SENT";
  /** Why your institution did not take it: then you may answer again, in time. */
  refusal?: string;
  /** When you answered. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** An event `infraction.*`. */
export interface InfractionEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "infraction.opened" | "infraction.answered" | "infraction.taken" | "infraction.released" | "infraction.reminded";
  /** The facts. */
  payload: InfractionPayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The payload of ``infraction.*`` events. */
export interface InfractionPayload {
  /** The infraction's id here. Below 2^53. */
  id: number;
  /** Your institution's name of it. */
  infraction_id: string;
  /** The Pix that is contested, by its name on the whole network. */
  end_to_end_id: string;
  /** The id of its transfer. */
  transfer_id: number;
  /** The charge that the Pix has paid. */
  charge_id?: number;
  /** The txid that the Pix names. */
  transaction_identification?: string;
  /** Your own name for the charge, or the one that the service made. */
  external_id?: string;
  /** How much of the Pix is contested. Cents. */
  amount: number;
  /** How much of your money is blocked because of it. Cents. */
  held: number;
  /** How much your institution has given back because of it. Cents. */
  taken: number;
  /** The payer's institution's reason: the payer was deceived, or the Pix went wrong by a fault. */
  reason: "fraud" | "operational_flaw";
  /** The situation, in the words of the key directory. */
  situation: "account_takeover" | "coercion" | "fraudulent_access" | "other" | "scam";
  /** The payer's words. */
  words?: string;
  /** `OPEN`, `ANSWERED`, `TAKEN` or `RELEASED`. */
  status: "ANSWERED" | "OPEN" | "RELEASED" | "TAKEN";
  /** Until when you can answer. RFC 3339, UTC, with microseconds. */
  respond_by: string;
  /** Where you answer: the path of the operation. */
  respond_to: string;
  /** When it was recorded here. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** An outside payer contests a Pix that you received. */
export interface InfractionRequest {
  /** Names the Pix. */
  end_to_end_id: string;
  /** How much is contested; all of it if left out. Cents, without a fraction. */
  amount?: number;
  /** The payer's institution's reason. */
  reason?: "fraud" | "operational_flaw";
  /** The situation. */
  situation?: "account_takeover" | "coercion" | "fraudulent_access" | "other" | "scam";
  /** The payer's words. */
  words?: string;
  /** The decision after seven days: `by_answer` releases answered ones and takes the others; with `never` the block ends by itself after eleven. */
  judged?: "by_answer" | "never" | "release" | "take";
}

/** A transfer to an account. */
export interface InitiatePixWithAccountDetailsRequest {
  /** The amount to send. Cents, without a fraction. */
  amount: number;
  /** Your own unique name for it, which makes a repeated request safe; the service makes one otherwise. */
  external_id?: string;
  /** The payee's account. */
  credit_party: TransferParty;
}

/** A transfer to a Pix key. */
export interface InitiatePixWithKeyRequest {
  /** The amount to send. Cents, without a fraction. */
  amount: number;
  /** Your own unique name for it, which makes a repeated request safe; the service makes one otherwise. */
  external_id?: string;
  /** The payee's key. */
  key: string;
  /** The key's type. */
  key_type: KeyType;
}

/** A transfer to the payee that a QR code names. */
export interface InitiatePixWithQRCodeRequest {
  /** The amount to send; if the code carries one, exactly that. Cents, without a fraction. */
  amount: number;
  /** Your own unique name for it, which makes a repeated request safe; the service makes one otherwise. */
  external_id?: string;
  /** The text of the QR code. */
  emv: string;
}

export type InitiationType = "KEY" | "MANUAL" | "QRCODE";

/** A Pix key of a new outside account. */
export interface KeyRequest {
  /** Made up if left out. */
  key?: string;
  /** The key's type. */
  key_type: KeyType;
  /** The account's owner; made up if left out. */
  name?: string;
  /** The owner's CPF or CNPJ; made up if left out. */
  tax_id?: string;
}

/** A JWK set (RFC 7517). */
export interface KeySet {
  /** The latest first. */
  keys: PublishedKey[];
}

export type KeyType = "CPF" | "CNPJ" | "PHONE" | "EMAIL" | "EVP";

/** One side of a transfer as far as it is known. Your own side is this service's record of you. */
export interface KnownParty {
  /** With its check digit. */
  account_number: PartyMember;
  /** The kind of account. No institution reports a payer's. */
  account_type: PartyMember;
  /** The institution's name. */
  bank: PartyMember;
  /** Without a check digit. */
  branch: PartyMember;
  /** The institution's identifier. */
  ispb: PartyMember;
  /** The Pix key that was paid or found; a payer's is never reported. */
  key: PartyMember;
  /** The key's type. */
  key_type: PartyMember;
  /** The account's owner. */
  name: PartyMember;
  /** The owner's CPF or CNPJ. */
  tax_id: PartyMember;
}

/** The process answers. */
export interface Liveness {
  /** `alive`, always: a process that is not does not answer. */
  status?: "alive";
}

/** An event `movement.*`. */
export interface MovementEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "movement.posted";
  /** The facts. */
  payload: MovementPayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** Money that the institution has moved. */
export interface MovementOutcome {
  /** The institution's name of the item in its own statement. */
  id: string;
  /** How much was moved. Cents, without a fraction. */
  amount: number;
  /** POSTED once it is durably in your account. */
  status: "POSTED" | "PROCESSING";
}

/** The payload of ``movement.*`` events. */
export interface MovementPayload {
  /** The movement's id: that of its line in your statement, where it has one. Below 2^53. */
  id: number;
  /** The institution's name of the item in its own statement; unique on your account. */
  item_id: string;
  /** The kind: `fee`, `wire`, `boleto`, `by_hand` (a person in the institution's app), `reversal`, `judicial`, `other`, or `opening_balance`, with which the account begins here. */
  kind: string;
  /** IN credits you, OUT debits you. */
  impact_type: Direction;
  /** How much was moved. Cents. */
  amount: number;
  /** The part that exceeded your balance: you owe it, and incoming money repays it first. Cents. */
  deficit: number;
  /** The Pix that it is about, such as the one that a fee is taken of. */
  end_to_end_id?: string;
  /** The institution's text. */
  description?: string;
  /** Only movements that moved money are announced. */
  status: "POSTED";
  /** When it happened at the institution. RFC 3339, UTC, with microseconds. */
  settle_timestamp: string;
  /** When it was posted. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** Money that the institution, or a person in its app, moves on your account without you. */
export interface MovementRequest {
  /** The kind; `by_hand` is a person in the institution's app. */
  kind: "boleto" | "by_hand" | "fee" | "judicial" | "other" | "reversal" | "wire";
  /** IN raises your balance, OUT lowers it. */
  direction: Direction;
  /** How much is moved. Cents, without a fraction. */
  amount: number;
  /** The institution's text beside it. */
  text?: string;
}

/** A payer at another institution; the sandbox invents omitted members. */
export interface OutsidePayer {
  /** The account's owner. */
  name?: string;
  /** CPF or CNPJ, without a mask. */
  tax_id?: string;
}

/** Which page of the list this is. */
export interface Pagination {
  /** This one, from 1. */
  page: number;
  /** Items a page. */
  page_size: number;
  /** Items in the whole list. */
  total_items: number;
  /** 0 when the list is empty. */
  total_pages: number;
  /** Whether there is a page after this one. */
  has_next: boolean;
  /** Whether there is a page before this one. */
  has_prev: boolean;
}

/** The payment of a charge. */
export interface PaidBy {
  /** The charge's `id`. Below 2^53. */
  charge_id: number;
  /** The `id` of the transfer that paid it. Below 2^53. */
  transfer_id: number;
  /** The transfer's name on the whole network: a refund names it. */
  end_to_end_id: string;
  /** The amount paid. Cents, without a fraction. */
  amount: number;
  /** CONFIRMED; RETURNED when all of it was refunded. */
  status: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED";
  /** When it was paid. RFC 3339, UTC, with microseconds. */
  paid_at: string;
  /** The payer and its account. */
  payer: TransferParty;
}

/** One member of a party, and how it is known. */
export interface PartyMember {
  /** `known` is whole, `masked` has the institution's asterisks, `unknown` is not reported. */
  certainty: "known" | "masked" | "unknown";
  /** Its value, unless unknown. */
  value?: string;
}

/** The outcome of a payment from outside. */
export interface Payment {
  /** Its name on the network, and that of your incoming transfer. */
  end_to_end_id: string;
  /** The amount paid. Cents, without a fraction. */
  amount: number;
  /** CONFIRMED once the money is durably in your account; PROCESSING while it is held as suspect; ERROR if the service refused it, the network cancelled it or your institution returned it. */
  status: "CONFIRMED" | "ERROR" | "PROCESSING";
  /** Why it was refused, in the scheme's codes. */
  code?: string;
  /** The same as a sentence. */
  reason?: string;
}

/** Money that a payer at another institution sends you. One of `emv`, `location` and `key`. */
export interface PaymentRequest {
  /** One of your QR codes. */
  emv?: string;
  /** One of your locations, without a scheme: its payload is read, and the charge in it paid. */
  location?: string;
  /** One of your Pix keys; needs an amount. */
  key?: string;
  /** The amount to pay; if left out the code's amount, of a charge with a due date that of the clock's today. Cents, without a fraction. */
  amount?: number;
  /** The payer. */
  payer?: OutsidePayer;
  /** The payer's message: `infoPagador` of the central bank's Pix API. */
  payer_message?: string;
  /** Set, your institution holds it as suspect: it releases or returns it after 72 hours, or before by `decide`. */
  suspect?: "release" | "return";
}

/** A public key as a JWK (RFC 7517). */
export interface PublishedKey {
  /** The key's name, as in the headers of its signatures. */
  kid: string;
  /** The key's family. */
  kty: "EC";
  /** The key's curve. */
  crv: "P-256";
  /** The point's x, base64url. */
  x: string;
  /** The point's y, base64url. */
  y: string;
  /** The algorithm it signs with. */
  alg: "ES256";
  /** Its use. */
  use: "sig";
}

/** A QR code of an outside merchant. */
export interface QrCode {
  /** The text of the QR code. */
  emv: string;
}

/** A QR code of an outside merchant, for you to pay. */
export interface QrCodeRequest {
  /** A dynamic one has a location, needs an amount, and is paid once. */
  kind: "dynamic" | "static";
  /** The merchant's Pix key; the sandbox's own merchant if left out. */
  key?: string;
  /** The code's amount. Cents, without a fraction. */
  amount?: number;
  /** The code's txid. 1 to 35 letters and digits. */
  txid?: string;
}

/** Whether this process should get requests. */
export interface Readiness {
  /** `not ready` comes with 503. */
  status: "not ready" | "ready";
  /** The checks that failed, and why. */
  error?: string;
}

/** The receipt of a transfer or refund that has settled. */
export interface Receipt {
  /** Whether a Pix, or a return of one. */
  kind: "refund" | "transfer";
  /** The service's own name for the transfer or refund. Below 2^53. */
  id: number;
  /** IN credited you, OUT debited you. */
  direction: Direction;
  /** The amount paid or returned. Cents, without a fraction. */
  amount: number;
  /** When, by the network's clock where it is known. RFC 3339, UTC, with microseconds. */
  settled_at: string;
  /** The payer, or for a refund the returning party. */
  payer: ReceiptParty;
  /** The payee. */
  payee: ReceiptParty;
  /** The network's name of the Pix, of a refund that of the original; missing where the network does not know one. */
  end_to_end_id?: string;
  /** The network's name of a refund; missing as above. */
  return_identification?: string;
  /** The txid of the code that was paid, if it has one. */
  transaction_identification?: string;
  /** How the payer found the account: by a dynamic or a static code, a key, or its branch and number. */
  code_kind: "account" | "dynamic_code" | "key" | "static_code";
  /** Of a transfer: how much of it has been returned since. Cents. */
  amount_returned?: number;
  /** The message of the payer, or of the returning party. */
  message?: string;
  /** Settled within this service, without the network. */
  is_book: boolean;
  /** No money has moved: a sandbox, or an installation of test environments. */
  is_test: boolean;
}

/** PDF, one page of A4. */
export type ReceiptFile = Uint8Array;

/** One side, as far as it is known. */
export interface ReceiptParty {
  /** The account's owner. */
  name?: string;
  /** The owner's CPF without its first three and last two digits, or CNPJ. */
  tax_id?: string;
  /** The institution's name. */
  institution?: string;
  /** The institution's identifier, with which its CNPJ begins. */
  ispb?: string;
  /** The payee's Pix key; a CPF is masked here too. */
  key?: string;
}

/** A received Pix given back, wholly or in part. */
export interface Refund {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** Your own name for it; incoming ones have none. */
  external_id?: string;
  /** Its name on the whole network. It finds the refund for good, also where the network makes another one later, which is shown from then on. */
  return_identification: string;
  /** The Pix that is returned. */
  original_end_to_end_id: string;
  /** Joins everything of one payment. */
  correlation_id: string;
  /** The amount returned. Cents, without a fraction. */
  amount: number;
  /** PROCESSING until the rail has answered, then RETURNED or ERROR. */
  status: "ERROR" | "PROCESSING" | "RETURNED";
  /** OUT: you return a payment that you received. IN: a payment of yours is returned to you. */
  flow: Direction;
  /** Why it is returned. */
  reason: RefundReason;
  /** For the payer to read. */
  description?: string;
  /** When it was accepted. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** When it last changed. RFC 3339, UTC, with microseconds. */
  last_modified: string;
}

/** An event `refund.*`. */
export interface RefundEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "refund.in.processing" | "refund.in.returned" | "refund.in.error" | "refund.out.processing" | "refund.out.returned" | "refund.out.error";
  /** The facts. */
  payload: RefundPayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The outcome of a refund, and its reason. */
export interface RefundOutcome {
  /** The refund's status. */
  status: "ERROR" | "PROCESSING" | "RETURNED";
  /** Why it failed, if it did: the rail's code, or the service's. */
  code?: string;
  /** The same as a sentence. */
  reason?: string;
}

/** The payload of ``refund.*`` events. */
export interface RefundPayload {
  /** The refund's id. Below 2^53. */
  id: number;
  /** Your own name for it; incoming ones have none. */
  external_id?: string;
  /** Its name on the whole network. */
  return_identification: string;
  /** The Pix that is returned. */
  original_end_to_end_id: string;
  /** The same as that of the transfer that is returned. */
  correlation_id: string;
  /** The amount returned. Cents. */
  amount: number;
  /** The status that this event announces. */
  status: "ERROR" | "PROCESSING" | "RETURNED";
  /** OUT: you return a payment that you received. IN: a payment of yours is returned to you. */
  flow: Direction;
  /** When the refund was accepted. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

export type RefundReason = "MD06" | "BE08" | "FR01" | "SL02";

/** A span of time whose events are to be sent again. */
export interface ReplayRequest {
  /** The first instant included. RFC 3339 with an offset. RFC 3339, UTC, with microseconds. */
  initial_date: Instant;
  /** The last instant included. RFC 3339 with an offset. RFC 3339, UTC, with microseconds. */
  final_date: Instant;
}

/** The deliveries to send again. */
export interface Replayed {
  /** The number of events. */
  replayed: number;
}

/** The outcome of a return. */
export interface ReturnOutcome {
  /** Its name on the network, and that of your incoming refund. */
  return_identification: string;
  /** The returned Pix. */
  original_end_to_end_id: string;
  /** The amount given back. Cents, without a fraction. */
  amount: number;
  /** RETURNED once the money is durably in your account. */
  status: "ERROR" | "PROCESSING" | "RETURNED";
}

/** Money that a receiver of yours gives back. */
export interface ReturnRequest {
  /** Names a Pix that you sent over the rail. */
  end_to_end_id: string;
  /** The amount to give back; all that is left of the Pix if left out. Cents, without a fraction. */
  amount?: number;
  /** Why it is returned. */
  reason?: RefundReason;
}

/** The time of the service and the sandbox. */
export interface SandboxClock {
  /** The time by which charges expire and retries are due. RFC 3339, UTC, with microseconds. */
  now: string;
}

/** A holder for tests, and its credentials. */
export interface SandboxHolder {
  /** The holder's id, which its tokens and webhooks have in them. Below 2^53. */
  holder_id: number;
  /** Logs in as this holder. */
  client_id: string;
  /** Shown here and never again. */
  client_secret: string;
  /** A Pix key of the holder, of the type EVP. */
  key: string;
}

/** An infraction as the sandbox has it. */
export interface SandboxInfraction {
  /** Its name, for decisions in the sandbox. */
  infraction_id: string;
  /** The Pix. */
  end_to_end_id: string;
  /** How much is contested. Cents, without a fraction. */
  amount: number;
  /** The claimed amount, to be blocked as far as available. Cents. */
  wanted: number;
  /** How much of that is blocked. Cents. */
  held: number;
  /** How far it is. */
  status: "ANSWERED" | "OPEN" | "RELEASED" | "TAKEN";
  /** Until when you can answer. RFC 3339, UTC, with microseconds. */
  respond_by: string;
}

/** Metadata of this server for OAuth 2 libraries (RFC 8414). */
export interface ServerMetadata {
  /** As `iss` in tokens. */
  issuer: string;
  /** The address of the token endpoint. */
  token_endpoint: string;
  /** The keys that verify tokens. */
  jwks_uri: string;
  /** All scopes that there are. */
  scopes_supported: string[];
  /** `none`: there is no page on which a person signs in. */
  response_types_supported: string[];
  /** `client_credentials`. */
  grant_types_supported: string[];
  /** How a client may name itself. */
  token_endpoint_auth_methods_supported: string[];
  /** Whether tokens of clients with a certificate are bound to it (RFC 8705, 3.3): where the service has a port for them. */
  tls_client_certificate_bound_access_tokens: boolean;
  /** The documentation for people. */
  service_documentation: string;
}

/** A compact JWS (RFC 7515). */
export type SignedPayload = string;

/** The account's history: opening balance + lines = closing balance. */
export interface Statement {
  /** The balance before the first line. Cents. */
  opening_balance: number;
  /** The balance after the last line. Cents. */
  closing_balance: number;
  /** Oldest first. */
  lines: StatementLine[];
}

/** One change of the account's current funds. */
export interface StatementLine {
  /** The line's id, the same in every format and export. Below 2^53. */
  id: number;
  /** When it settled. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** The transfer's; of a refund, the original's; others have none. */
  end_to_end_id?: string;
  /** The refund's; nothing else has one. */
  return_identification?: string;
  /** IN raised the balance, OUT lowered it. */
  impact_type: Direction;
  /** How much the balance changed. Cents, without a fraction. */
  amount: number;
  /** The balance after it. Cents. */
  running_balance: number;
  /** The counterparty; deposits, the institution's own movements and repayments of deficits have none. */
  counterparty?: Counterparty;
  /** The text on a refund or of the institution; for any other line its kind and the other side's name, in the `language`. */
  description: string;
  /** Your own name for the transfer or refund, or for the charge that was paid; others have none. */
  external_id?: string;
  /** The transfer's txid, if it has one; of a refund, the original's. */
  transaction_identification?: string;
}

/** The process that answered. */
export interface SystemInfo {
  /** The runtime and its version. */
  go_version: string;
  /** Resident memory. */
  mem_alloc_mb: number;
  /** Resident memory. */
  mem_sys_mb: number;
  /** Resident memory at its peak. */
  mem_total_mb: number;
  /** Cores of the machine. */
  num_cpu: number;
  /** Collections of the garbage collector. */
  num_gc: number;
  /** asyncio tasks. */
  num_goroutine: number;
  /** Since the process started. */
  uptime: string;
  /** The program's version. */
  version: string;
}

/** A change of the account's current funds. */
export interface Transaction {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** How much the funds changed. Cents, without a fraction. */
  amount: number;
  /** IN raised them, OUT lowered them. */
  impact_type: Direction;
  /** When it settled. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** The same: a transaction never changes. RFC 3339, UTC, with microseconds. */
  last_modified: string;
}

/** Money moved over Pix. */
export interface Transfer {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** The amount sent. Cents, without a fraction. */
  amount: number;
  /** When it was accepted. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** When it last changed. RFC 3339, UTC, with microseconds. */
  last_modified: string;
  /** The payee. */
  credit_party: TransferParty;
  /** The payer. */
  debit_party: TransferParty;
  /** Its name on the whole network. It finds the transfer for good, also where the network makes another one later, which is shown from then on. */
  end_to_end_id: string;
  /** Your own name for it; incoming ones have none. */
  external_id?: string;
  /** IN credits you, OUT debits you. */
  impact_type: Direction;
  /** PROCESSING until the rail has answered, then CONFIRMED or ERROR; CANCELLED if it never left; RETURNED when all of it came back. */
  status: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED";
  /** The txid of the QR code, if there was one. */
  transaction_identification?: string;
}

/** An event `transfer.*`. */
export interface TransferEvent {
  /** The event's id, the same on every attempt: use it to drop duplicates. Below 2^53. */
  id: number;
  /** What has happened. */
  name: "transfer.in.processing" | "transfer.in.confirmed" | "transfer.in.error" | "transfer.out.processing" | "transfer.out.confirmed" | "transfer.out.error" | "transfer.in.held" | "transfer.in.completed" | "transfer.out.waiting";
  /** The facts. */
  payload: TransferPayload;
  /** When it happened. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
}

/** The outcome of a transfer, and its reason. */
export interface TransferOutcome {
  /** The transfer's status. */
  status: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED";
  /** Why it failed, if it did: the rail's code, or the service's. */
  code?: string;
  /** The same as a sentence. */
  reason?: string;
}

/** The known facts about both sides of a transfer, and its names. */
export interface TransferParties {
  /** The payer. */
  payer: KnownParty;
  /** The payee. */
  payee: KnownParty;
  /** Its name. */
  end_to_end_id: string;
  /** Whether that name is this service's alone: the network does not know it, so no other institution finds the Pix by it. False once it is the network's. */
  is_end_to_end_id_ours: boolean;
  /** Its txid, if there is one; for one of your charges this service's, at any institution. */
  transaction_identification?: string;
  /** That txid as made by the institution and used by the network, if the institution does not accept ours. */
  network_transaction_identification?: string;
  /** The account at an institution on which it lies, as the operator calls it. */
  institution?: string;
  /** The pending task of a person: an `operator` of this service has to approve it, within 11 hours; or at the institution its `approval`, or `funds` there, which may take days. A received one is held as suspect by its `institution`: do not deliver yet. Its status stays `PROCESSING`. */
  waits_for?: "approval" | "funds" | "institution" | "operator";
  /** Since when, or when that was first seen. RFC 3339, UTC, with microseconds. */
  waits_since?: string;
}

/** One side of a transfer. */
export interface TransferParty {
  /** With its check digit, without a mask. */
  account_number: string;
  /** The kind of account. */
  account_type: AccountType;
  /** The institution's name. */
  bank?: string;
  /** Without a check digit. */
  branch: string;
  /** The institution's identifier, 8 characters. */
  ispb: string;
  /** A Pix key of the account. */
  key?: string;
  /** The key's type. */
  key_type?: KeyType;
  /** The account's owner. */
  name: string;
  /** The owner's CPF of 11 digits or CNPJ of 14 characters, without a mask. */
  tax_id: string;
}

/** The payload of ``transfer.*`` events. */
export interface TransferPayload {
  /** The transfer's id. Below 2^53. */
  id: number;
  /** Your own name for it; incoming ones have none. */
  external_id?: string;
  /** Its name on the whole network. */
  end_to_end_id: string;
  /** The same in everything that belongs to one transfer, its refunds included. */
  correlation_id: string;
  /** The amount sent. Cents. */
  amount: number;
  /** IN credits you, OUT debits you. */
  impact_type: Direction;
  /** How the payee was named: by key, by account, or by QR code. */
  initiation_type: InitiationType;
  /** The status that this event announces. */
  status: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED";
  /** When the transfer was accepted. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** Of `transfer.in.held` alone. */
  hold?: CreditHold;
}

/** The institution's decision by hand on a held payment. */
export interface VerdictRequest {
  /** Release it, so that it is yours and pays its charge; or return it to its payer. */
  decision: "release" | "return";
}

/** One event on its way to one endpoint. */
export interface WebhookDelivery {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** The endpoint that it goes to. Below 2^53. */
  endpoint_id: number;
  /** The event that it delivers. Below 2^53. */
  event_id: number;
  /** `pending` until an attempt succeeds (`delivered`) or the last one fails (`failed`). */
  status: "delivered" | "failed" | "pending";
  /** Oldest first. */
  attempts: DeliveryAttempt[];
}

/** Where events are posted. The secret is never shown. */
export interface WebhookEndpoint {
  /** The service's own name for it. Below 2^53. */
  id: number;
  /** A public https address. */
  url: string;
  /** The types of events that are posted to it. */
  event_types: EventName[];
  /** `active`; `inactive`: paused by you; `disabled`: stopped by the service after 410 or days of failures. */
  status: EndpointStatus;
  /** When it was made. RFC 3339, UTC, with microseconds. */
  create_timestamp: string;
  /** When it last changed. RFC 3339, UTC, with microseconds. */
  last_modified: string;
}

/** An event, as it is posted. */
export type WebhookEvent = ChargeEvent | TransferEvent | RefundEvent | MovementEvent | InfractionEvent | AdjustmentEvent | DivergenceEvent;
