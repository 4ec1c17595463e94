/** The sandbox's operations: the other side of the network. A live service has none of them and answers `NotFound`. */
import type { CallOptions } from "./call.js";
import type { Items } from "./lists.js";
import { type QueryOf, Resource } from "./resource.js";
import type {
  DecisionRequest,
  Deposit,
  DepositRequest,
  FaultRule,
  FaultRules,
  HolderRequest,
  InfractionRequest,
  Instant,
  KeyRequest,
  MovementOutcome,
  MovementRequest,
  Payment,
  PaymentRequest,
  QrCode,
  QrCodeRequest,
  ReturnOutcome,
  ReturnRequest,
  SandboxClock,
  SandboxHolder,
  SandboxInfraction,
  TransferParty,
  VerdictRequest,
} from "./types.js";

type Paid = Pick<PaymentRequest, "amount" | "payer" | "payer_message" | "suspect">;

/** Be paid, break things, move the clock. */
export class Sandbox extends Resource {
  /** Pay one of your QR codes from another institution; the code's amount if none is given. */
  pay(payment: Paid & { emv: string }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Somebody outside pays the charge that one of your locations serves. */
  payLocation(payment: Paid & { location: string }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Send money from another institution to one of your keys. */
  receive(payment: Paid & { key: string; amount: number }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Decide as your institution would on a payment that it holds as suspect: release or return it. */
  judgePayment(endToEndId: string, verdict: VerdictRequest, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_judge_payment", { parameters: { endToEndId }, body: verdict }, options);
  }

  /** The receiver of a Pix of yours returns it: what is left of it, or the amount given. */
  giveBack(given: ReturnRequest, options?: CallOptions): Promise<ReturnOutcome> {
    return this.ask("sandbox_give_back", { body: given }, options);
  }

  /** Put money into your account. */
  deposit(deposit: DepositRequest, options?: CallOptions): Promise<Deposit> {
    return this.ask("sandbox_deposit", { body: deposit }, options);
  }

  /** Let the institution, or a person in its app, move money on your account. */
  move(movement: MovementRequest, options?: CallOptions): Promise<MovementOutcome> {
    return this.ask("sandbox_move", { body: movement }, options);
  }

  /** Somebody contests a Pix that you received; the sandbox, your institution, blocks what there is of it. */
  openInfraction(infraction: InfractionRequest, options?: CallOptions): Promise<SandboxInfraction> {
    return this.ask("sandbox_open_infraction", { body: infraction }, options);
  }

  /** Decide as the institution would: take, release, or hold more of what is wanted. */
  decideInfraction(infractionId: string, decision: DecisionRequest, options?: CallOptions): Promise<SandboxInfraction> {
    return this.ask("sandbox_decide_infraction", { parameters: { infractionId }, body: decision }, options);
  }

  /** Whom you can send to. */
  keys(query: QueryOf<"sandbox_list_keys"> = {}, options?: CallOptions): Items<TransferParty> {
    return this.listing("sandbox_list_keys", { query }, options);
  }

  /** Add somebody outside; what is left out is made up. */
  addKey(key: KeyRequest, options?: CallOptions): Promise<TransferParty> {
    return this.ask("sandbox_add_key", { body: key }, options);
  }

  /** A QR code of an outside merchant, for you to pay: `static`, or `dynamic`, which needs an amount. */
  makeQrCode(code: QrCodeRequest, options?: CallOptions): Promise<QrCode> {
    return this.ask("sandbox_make_qr_code", { body: code }, options);
  }

  /** How the network misbehaves, for all holders. */
  faults(options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_get_faults", {}, options);
  }

  /** Let the network misbehave: the first rule that matches wins. */
  replaceFaults(rules: FaultRule[], options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_replace_faults", { body: { rules } }, options);
  }

  clearFaults(options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_clear_faults", {}, options);
  }

  /** The time by which charges expire and retries are due. */
  clock(options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_get_clock", {}, options);
  }

  /** Move the time forward by so many seconds; all that falls due on the way is done before the answer. */
  advanceClock(seconds: number, options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { advance_s: seconds } }, options);
  }

  /** Move the time forward to an instant. */
  setClock(now: Instant, options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { now } }, options);
  }

  /** Back to real time. */
  resetClock(options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { reset: true } }, options);
  }

  /** Open an account with a client and a key of its own; what is left out is made up. */
  openHolder(holder: HolderRequest = {}, options?: CallOptions): Promise<SandboxHolder> {
    return this.ask("sandbox_open_holder", { body: holder }, options);
  }
}
