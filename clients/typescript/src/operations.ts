// Written by `make docs` of the service's OpenAPI document. Do not edit it.

import type {
  ChangeEndpointRequest,
  Charge,
  ClockRequest,
  CreateChargeRequest,
  CreateDueChargeRequest,
  CreateEndpointRequest,
  CreateRefundRequest,
  CurrentKey,
  DecisionRequest,
  DefenceRequest,
  Deposit,
  DepositRequest,
  Direction,
  EventFeed,
  FaultRules,
  Health,
  HolderBalance,
  HolderRequest,
  Infraction,
  InfractionRequest,
  InitiatePixWithAccountDetailsRequest,
  InitiatePixWithKeyRequest,
  InitiatePixWithQRCodeRequest,
  Instant,
  KeyRequest,
  KeySet,
  Liveness,
  MovementOutcome,
  MovementRequest,
  PaidBy,
  Payment,
  PaymentRequest,
  QrCode,
  QrCodeRequest,
  Readiness,
  Receipt,
  ReceiptFile,
  Refund,
  RefundOutcome,
  ReplayRequest,
  Replayed,
  ReturnOutcome,
  ReturnRequest,
  SandboxClock,
  SandboxHolder,
  SandboxInfraction,
  ServerMetadata,
  SignedPayload,
  Statement,
  Transaction,
  Transfer,
  TransferOutcome,
  TransferParties,
  TransferParty,
  VerdictRequest,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
} from "./types.js";

/** How an operation is asked for, and how its answer is read. */
export interface Operation {
  readonly method: "DELETE" | "GET" | "PATCH" | "POST" | "PUT";
  /** As the document has it, with names in braces. */
  readonly path: string;
  /** `data` and a `page` stand in the envelope; `bare` JSON and `text` have none; `octets` are a file. */
  readonly reads: "bare" | "data" | "octets" | "page" | "text";
  /** Whether it needs a token. */
  readonly isAuthorized: boolean;
  /** Whether it is served at the identity service's address. */
  readonly isIdentity: boolean;
  /** Whether its body has an `external_id`, so that the same again has no second effect. */
  readonly isNamed: boolean;
  /** Statuses beside 2xx whose answer is one. */
  readonly alsoReads: readonly number[];
}

/** What each operation takes and answers. */
export interface Operations {
  create_charge: {
    query?: { base64?: boolean };
    body: CreateChargeRequest;
    answer: Charge;
  };
  get_charge_by_id: {
    parameters: { id: number };
    query?: { base64?: boolean };
    answer: Charge;
  };
  get_charge_by_external_id: {
    parameters: { externalId: string };
    query?: { base64?: boolean };
    answer: Charge;
  };
  get_charge_by_txid: {
    parameters: { txid: string };
    query?: { base64?: boolean };
    answer: Charge;
  };
  get_charge_payment: {
    parameters: { id: number };
    answer: PaidBy;
  };
  list_charges_by_holder: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "APPROVED" | "EXPIRED" | "PENDING" | "RETURNED" };
    answer: Charge;
  };
  get_location: {
    parameters: { txid: string };
    answer: SignedPayload;
  };
  get_location_key_set: {
    answer: KeySet;
  };
  create_due_charge: {
    query?: { base64?: boolean };
    body: CreateDueChargeRequest;
    answer: Charge;
  };
  initiate_pix_with_key: {
    headers?: { "X-Payee-Tax-Id"?: string };
    body: InitiatePixWithKeyRequest;
    answer: Transfer;
  };
  initiate_pix_with_account_details: {
    body: InitiatePixWithAccountDetailsRequest;
    answer: Transfer;
  };
  initiate_pix_with_qrcode: {
    body: InitiatePixWithQRCodeRequest;
    answer: Transfer;
  };
  get_transfer_by_id: {
    parameters: { id: number };
    answer: Transfer;
  };
  get_transfer_outcome: {
    parameters: { id: number };
    answer: TransferOutcome;
  };
  get_transfer_by_external_id: {
    parameters: { externalId: string };
    answer: Transfer;
  };
  get_transfer_by_end_to_end_id: {
    parameters: { endToEndId: string };
    answer: Transfer;
  };
  list_transfers_by_holder: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "CANCELLED" | "CONFIRMED" | "PROCESSING" | "RETURNED" };
    answer: Transfer;
  };
  search_transfers: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "CANCELLED" | "CONFIRMED" | "ERROR" | "PROCESSING" | "RETURNED"; direction?: Direction; external_id?: string; end_to_end_id?: string; key?: string; txid?: string; amount?: number; tax_id?: string; end_to_end_id_part?: string };
    answer: Transfer;
  };
  get_transfer_parties: {
    parameters: { id: number };
    answer: TransferParties;
  };
  get_transfer_receipt: {
    parameters: { id: number };
    answer: Receipt;
  };
  get_transfer_receipt_file: {
    parameters: { id: number };
    answer: ReceiptFile;
  };
  create_refund: {
    body: CreateRefundRequest;
    answer: Refund;
  };
  get_refund_by_id: {
    parameters: { id: number };
    answer: Refund;
  };
  get_refund_outcome: {
    parameters: { id: number };
    answer: RefundOutcome;
  };
  get_refund_by_external_id: {
    parameters: { externalId: string };
    answer: Refund;
  };
  get_refund_by_return_identification: {
    parameters: { returnIdentification: string };
    answer: Refund;
  };
  list_refunds_by_holder: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "ERROR" | "PROCESSING" | "RETURNED" };
    answer: Refund;
  };
  get_refund_receipt: {
    parameters: { id: number };
    answer: Receipt;
  };
  get_refund_receipt_file: {
    parameters: { id: number };
    answer: ReceiptFile;
  };
  list_infractions: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "ANSWERED" | "OPEN" | "RELEASED" | "TAKEN" };
    answer: Infraction;
  };
  get_infraction_by_id: {
    parameters: { id: number };
    answer: Infraction;
  };
  defend_infraction: {
    parameters: { id: number };
    body: DefenceRequest;
    answer: Infraction;
  };
  retrieve_current_balance: {
    answer: HolderBalance;
  };
  list_transactions_by_holder: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant };
    answer: Transaction;
  };
  retrieve_statement: {
    query: { initial_date: Instant; final_date: Instant; format?: "camt053" | "csv" | "json" | "ofx"; language?: "en" | "pt" };
    answer: Statement;
  };
  create_webhook_endpoint: {
    body: CreateEndpointRequest;
    answer: WebhookEndpoint;
  };
  list_webhook_endpoints: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant };
    answer: WebhookEndpoint;
  };
  get_webhook_endpoint: {
    parameters: { id: number };
    answer: WebhookEndpoint;
  };
  change_webhook_endpoint: {
    parameters: { id: number };
    body: ChangeEndpointRequest;
    answer: WebhookEndpoint;
  };
  delete_webhook_endpoint: {
    parameters: { id: number };
    answer: WebhookEndpoint;
  };
  list_webhook_deliveries: {
    parameters: { id: number };
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant; status?: "delivered" | "failed" | "pending" };
    answer: WebhookDelivery;
  };
  get_webhook_delivery: {
    parameters: { id: number };
    answer: WebhookDelivery;
  };
  redeliver_webhook: {
    parameters: { id: number };
    answer: WebhookDelivery;
  };
  list_events: {
    query?: { page?: number; page_size?: number; after?: string; initial_date?: Instant; final_date?: Instant };
    answer: WebhookEvent;
  };
  read_event_feed: {
    query?: { cursor?: string; start?: "now" | "oldest"; page_size?: number; wait_s?: number; event_types?: string; resource?: "adjustment" | "charge" | "infraction" | "movement" | "refund" | "transfer"; id?: string };
    answer: EventFeed;
  };
  replay_events: {
    parameters: { id: number };
    body: ReplayRequest;
    answer: Replayed;
  };
  get_server_metadata: {
    answer: ServerMetadata;
  };
  get_public_key: {
    answer: CurrentKey;
  };
  get_key_set: {
    answer: KeySet;
  };
  health_check: {
    answer: Health;
  };
  check_liveness: {
    answer: Liveness;
  };
  check_readiness: {
    answer: Readiness;
  };
  sandbox_pay: {
    body: PaymentRequest;
    answer: Payment;
  };
  sandbox_give_back: {
    body: ReturnRequest;
    answer: ReturnOutcome;
  };
  sandbox_deposit: {
    body: DepositRequest;
    answer: Deposit;
  };
  sandbox_open_holder: {
    body: HolderRequest;
    answer: SandboxHolder;
  };
  sandbox_list_keys: {
    query?: { page?: number; page_size?: number };
    answer: TransferParty;
  };
  sandbox_add_key: {
    body: KeyRequest;
    answer: TransferParty;
  };
  sandbox_make_qr_code: {
    body: QrCodeRequest;
    answer: QrCode;
  };
  sandbox_get_faults: {
    answer: FaultRules;
  };
  sandbox_replace_faults: {
    body: FaultRules;
    answer: FaultRules;
  };
  sandbox_clear_faults: {
    answer: FaultRules;
  };
  sandbox_get_clock: {
    answer: SandboxClock;
  };
  sandbox_move_clock: {
    body: ClockRequest;
    answer: SandboxClock;
  };
  sandbox_open_infraction: {
    body: InfractionRequest;
    answer: SandboxInfraction;
  };
  sandbox_decide_infraction: {
    parameters: { infractionId: string };
    body: DecisionRequest;
    answer: SandboxInfraction;
  };
  sandbox_judge_payment: {
    parameters: { endToEndId: string };
    body: VerdictRequest;
    answer: Payment;
  };
  sandbox_move: {
    body: MovementRequest;
    answer: MovementOutcome;
  };
}

export type OperationId = keyof Operations;

export const OPERATIONS: { readonly [Id in OperationId]: Operation } = {
  create_charge: { method: "POST", path: "/v1/connect/charge", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  get_charge_by_id: { method: "GET", path: "/v1/connect/charge/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_charge_by_external_id: { method: "GET", path: "/v1/connect/charge/external-id/{externalId}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_charge_by_txid: { method: "GET", path: "/v1/connect/charge/txid/{txid}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_charge_payment: { method: "GET", path: "/v1/connect/charge/id/{id}/payment", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_charges_by_holder: { method: "GET", path: "/v1/connect/charge/list", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_location: { method: "GET", path: "/v1/qr/{txid}", reads: "text", isAuthorized: false, isIdentity: false, isNamed: false, alsoReads: [] },
  get_location_key_set: { method: "GET", path: "/v1/qr/jwks.json", reads: "bare", isAuthorized: false, isIdentity: false, isNamed: false, alsoReads: [] },
  create_due_charge: { method: "POST", path: "/v1/connect/charge/due", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  initiate_pix_with_key: { method: "POST", path: "/v1/connect/transfer/key", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  initiate_pix_with_account_details: { method: "POST", path: "/v1/connect/transfer/manual", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  initiate_pix_with_qrcode: { method: "POST", path: "/v1/connect/transfer/qrcode", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  get_transfer_by_id: { method: "GET", path: "/v1/connect/transfer/id/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_outcome: { method: "GET", path: "/v1/connect/transfer/id/{id}/outcome", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_by_external_id: { method: "GET", path: "/v1/connect/transfer/external-id/{externalId}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_by_end_to_end_id: { method: "GET", path: "/v1/connect/transfer/end-to-end-id/{endToEndId}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_transfers_by_holder: { method: "GET", path: "/v1/connect/transfer/list", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  search_transfers: { method: "GET", path: "/v1/connect/transfer/search", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_parties: { method: "GET", path: "/v1/connect/transfer/id/{id}/parties", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_receipt: { method: "GET", path: "/v1/connect/transfer/id/{id}/receipt", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_transfer_receipt_file: { method: "GET", path: "/v1/connect/transfer/id/{id}/receipt.pdf", reads: "octets", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  create_refund: { method: "POST", path: "/v1/connect/refund", reads: "data", isAuthorized: true, isIdentity: false, isNamed: true, alsoReads: [] },
  get_refund_by_id: { method: "GET", path: "/v1/connect/refund/id/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_refund_outcome: { method: "GET", path: "/v1/connect/refund/id/{id}/outcome", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_refund_by_external_id: { method: "GET", path: "/v1/connect/refund/external-id/{externalId}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_refund_by_return_identification: { method: "GET", path: "/v1/connect/refund/return-identification/{returnIdentification}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_refunds_by_holder: { method: "GET", path: "/v1/connect/refund/list", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_refund_receipt: { method: "GET", path: "/v1/connect/refund/id/{id}/receipt", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_refund_receipt_file: { method: "GET", path: "/v1/connect/refund/id/{id}/receipt.pdf", reads: "octets", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_infractions: { method: "GET", path: "/v1/connect/infraction/list", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_infraction_by_id: { method: "GET", path: "/v1/connect/infraction/id/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  defend_infraction: { method: "POST", path: "/v1/connect/infraction/id/{id}/defence", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  retrieve_current_balance: { method: "GET", path: "/v1/connect/ledger/balance", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_transactions_by_holder: { method: "GET", path: "/v1/connect/ledger/list", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  retrieve_statement: { method: "GET", path: "/v1/connect/ledger/statement", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  create_webhook_endpoint: { method: "POST", path: "/v1/webhook/endpoints", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_webhook_endpoints: { method: "GET", path: "/v1/webhook/endpoints", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_webhook_endpoint: { method: "GET", path: "/v1/webhook/endpoints/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  change_webhook_endpoint: { method: "PATCH", path: "/v1/webhook/endpoints/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  delete_webhook_endpoint: { method: "DELETE", path: "/v1/webhook/endpoints/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_webhook_deliveries: { method: "GET", path: "/v1/webhook/endpoints/{id}/deliveries", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_webhook_delivery: { method: "GET", path: "/v1/webhook/deliveries/{id}", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  redeliver_webhook: { method: "POST", path: "/v1/webhook/deliveries/{id}/redeliver", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  list_events: { method: "GET", path: "/v1/webhook/events", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  read_event_feed: { method: "GET", path: "/v1/webhook/feed", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  replay_events: { method: "POST", path: "/v1/webhook/endpoints/{id}/replay", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  get_server_metadata: { method: "GET", path: "/.well-known/oauth-authorization-server", reads: "bare", isAuthorized: false, isIdentity: true, isNamed: false, alsoReads: [] },
  get_public_key: { method: "GET", path: "/v1/iam/public-key", reads: "data", isAuthorized: false, isIdentity: true, isNamed: false, alsoReads: [] },
  get_key_set: { method: "GET", path: "/.well-known/jwks.json", reads: "bare", isAuthorized: false, isIdentity: true, isNamed: false, alsoReads: [] },
  health_check: { method: "GET", path: "/v1/connect/health", reads: "data", isAuthorized: false, isIdentity: false, isNamed: false, alsoReads: [] },
  check_liveness: { method: "GET", path: "/livez", reads: "bare", isAuthorized: false, isIdentity: false, isNamed: false, alsoReads: [] },
  check_readiness: { method: "GET", path: "/readyz", reads: "bare", isAuthorized: false, isIdentity: false, isNamed: false, alsoReads: [429, 503] },
  sandbox_pay: { method: "POST", path: "/sandbox/v1/payments", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_give_back: { method: "POST", path: "/sandbox/v1/returns", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_deposit: { method: "POST", path: "/sandbox/v1/deposits", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_open_holder: { method: "POST", path: "/sandbox/v1/holders", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_list_keys: { method: "GET", path: "/sandbox/v1/keys", reads: "page", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_add_key: { method: "POST", path: "/sandbox/v1/keys", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_make_qr_code: { method: "POST", path: "/sandbox/v1/qrcodes", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_get_faults: { method: "GET", path: "/sandbox/v1/faults", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_replace_faults: { method: "PUT", path: "/sandbox/v1/faults", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_clear_faults: { method: "DELETE", path: "/sandbox/v1/faults", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_get_clock: { method: "GET", path: "/sandbox/v1/clock", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_move_clock: { method: "POST", path: "/sandbox/v1/clock", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_open_infraction: { method: "POST", path: "/sandbox/v1/infractions", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_decide_infraction: { method: "POST", path: "/sandbox/v1/infractions/{infractionId}/decide", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_judge_payment: { method: "POST", path: "/sandbox/v1/payments/{endToEndId}/decide", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
  sandbox_move: { method: "POST", path: "/sandbox/v1/movements", reads: "data", isAuthorized: true, isIdentity: false, isNamed: false, alsoReads: [] },
};
