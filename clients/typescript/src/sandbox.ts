/** Operations of the sandbox, which simulate the rest of the network. A live service answers `NotFound`. */
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

/** Simulate payments and faults, and move the clock. */
export class Sandbox extends Resource {
  /** Pay one of your QR codes from another institution, by default with the code's amount. */
  pay(payment: Paid & { emv: string }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Pay the charge at one of your locations from another institution. */
  payLocation(payment: Paid & { location: string }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Send money from another institution to one of your keys. */
  receive(payment: Paid & { key: string; amount: number }, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_pay", { body: payment }, options);
  }

  /** Decide, as your institution, on a payment held as suspect: release or return it. */
  judgePayment(endToEndId: string, verdict: VerdictRequest, options?: CallOptions): Promise<Payment> {
    return this.ask("sandbox_judge_payment", { parameters: { endToEndId }, body: verdict }, options);
  }

  /** Return a Pix that you sent, as its payee: the remaining amount, or the given one. */
  giveBack(given: ReturnRequest, options?: CallOptions): Promise<ReturnOutcome> {
    return this.ask("sandbox_give_back", { body: given }, options);
  }

  /** Put money into your account. */
  deposit(deposit: DepositRequest, options?: CallOptions): Promise<Deposit> {
    return this.ask("sandbox_deposit", { body: deposit }, options);
  }

  /** Move money on your account, as the institution or a person in its app. */
  move(movement: MovementRequest, options?: CallOptions): Promise<MovementOutcome> {
    return this.ask("sandbox_move", { body: movement }, options);
  }

  /** Contest a Pix that you received. The sandbox, as your institution, blocks the available part of it. */
  openInfraction(infraction: InfractionRequest, options?: CallOptions): Promise<SandboxInfraction> {
    return this.ask("sandbox_open_infraction", { body: infraction }, options);
  }

  /** Decide, as the institution: take, release, or hold more of the contested amount. */
  decideInfraction(infractionId: string, decision: DecisionRequest, options?: CallOptions): Promise<SandboxInfraction> {
    return this.ask("sandbox_decide_infraction", { parameters: { infractionId }, body: decision }, options);
  }

  /** List the keys that you can pay in the sandbox. */
  keys(query: QueryOf<"sandbox_list_keys"> = {}, options?: CallOptions): Items<TransferParty> {
    return this.listing("sandbox_list_keys", { query }, options);
  }

  /** Add a payee at another institution. Missing values are generated. */
  addKey(key: KeyRequest, options?: CallOptions): Promise<TransferParty> {
    return this.ask("sandbox_add_key", { body: key }, options);
  }

  /** Create a QR code of an outside merchant for you to pay: `static`, or `dynamic` with an amount. */
  makeQrCode(code: QrCodeRequest, options?: CallOptions): Promise<QrCode> {
    return this.ask("sandbox_make_qr_code", { body: code }, options);
  }

  /** Get the fault rules, which apply to all holders. */
  faults(options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_get_faults", {}, options);
  }

  /** Replace the fault rules. The first matching rule applies. */
  replaceFaults(rules: FaultRule[], options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_replace_faults", { body: { rules } }, options);
  }

  clearFaults(options?: CallOptions): Promise<FaultRules> {
    return this.ask("sandbox_clear_faults", {}, options);
  }

  /** Get the sandbox clock, which controls expiry and retries. */
  clock(options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_get_clock", {}, options);
  }

  /** Advance the clock by seconds. Everything that becomes due is processed before the call returns. */
  advanceClock(seconds: number, options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { advance_s: seconds } }, options);
  }

  /** Advance the clock to an instant. */
  setClock(now: Instant, options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { now } }, options);
  }

  /** Reset the clock to real time. */
  resetClock(options?: CallOptions): Promise<SandboxClock> {
    return this.ask("sandbox_move_clock", { body: { reset: true } }, options);
  }

  /** Create a holder with its own client and Pix key. Missing values are generated. */
  openHolder(holder: HolderRequest = {}, options?: CallOptions): Promise<SandboxHolder> {
    return this.ask("sandbox_open_holder", { body: holder }, options);
  }
}
