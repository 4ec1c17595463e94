/**
 * What can go wrong.
 *
 *     PixConnectError
 *      ├── ApiError            the service said no: status, code, reason, field, requestId, retryAfter
 *      │    ├── InvalidRequest  400, 405, 413, 422: as it stands it will never be accepted
 *      │    │    └── Conflict    the external_id is taken by something else
 *      │    ├── Unauthorized    401
 *      │    ├── Forbidden       403: the client lacks the scope
 *      │    ├── NotFound        404
 *      │    ├── CursorExpired   410: the feed begins later by now
 *      │    ├── RateLimited     429
 *      │    └── Unavailable     5xx
 *      ├── NoAnswer            no answer came, or none that can be read
 *      └── InvalidWebhook      a webhook that is not from the service
 *           └── UnknownSigningKey
 *
 * `mayHaveHappened` is the one question after an error: only where it is true can what was asked for be done all the same. Then
 * ask by `externalId`, or send the same again under the same one, until there is an answer.
 */
import type { ErrorCode } from "./types.js";

/** Whatever this package throws about the service. */
export class PixConnectError extends Error {
  /** Whether what was asked for may be done all the same, by this try or by one before it. */
  mayHaveHappened = false;
  /** What was asked for under, also where the client made it; undefined if it cannot be repeated safely. */
  externalId: string | undefined = undefined;
  /** Whether no token could be had, so that what was asked for was not sent. */
  isOfLogin = false;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer came, or none that can be read. */
export class NoAnswer extends PixConnectError {
  /** Whether another try may do better. */
  readonly isTransient: boolean;

  constructor(message: string, facts: { mayHaveHappened?: boolean; isTransient?: boolean; cause?: unknown } = {}) {
    super(message, { cause: facts.cause });
    this.mayHaveHappened = facts.mayHaveHappened ?? false;
    this.isTransient = facts.isTransient ?? true;
  }
}

/** What an error of the service says. */
export interface Refusal {
  status: number;
  code: ErrorCode;
  reason: string;
  requestId: string;
  details: Readonly<Record<string, unknown>>;
  retryAfter: number | undefined;
}

/** The service said no. */
export class ApiError extends PixConnectError {
  readonly status: number;
  /** For programs; the reference of errors explains each. A later service may have others than these. */
  readonly code: ErrorCode;
  /** For people: names the field and the rule. */
  readonly reason: string;
  /** The field that `reason` names, if it names one. */
  readonly field: string | undefined;
  /** What else the answer says. */
  readonly details: Readonly<Record<string, unknown>>;
  /** For questions about it. */
  readonly requestId: string;
  /** Seconds that the service asks to wait, if it does. */
  readonly retryAfter: number | undefined;

  constructor(refusal: Refusal) {
    super(`${refusal.code}: ${refusal.reason} (request ${refusal.requestId})`);
    this.status = refusal.status;
    this.code = refusal.code;
    this.reason = refusal.reason;
    const named = refusal.details["field"];
    this.field = typeof named === "string" ? named : /^[A-Za-z_][\w.[\]-]*(?=: )/.exec(refusal.reason)?.[0];
    this.details = refusal.details;
    this.requestId = refusal.requestId;
    this.retryAfter = refusal.retryAfter;
    // The service itself cannot say then what became of it.
    this.mayHaveHappened = refusal.code === "OUTCOME_UNKNOWN" || refusal.code === "INTERNAL_ERROR";
  }
}

/** As it stands it will never be accepted, or not before something else changes: the balance, a limit. */
export class InvalidRequest extends ApiError {}

/** The `external_id` is taken by something else. */
export class Conflict extends InvalidRequest {}

/** The client's id or secret is wrong, or it was disabled. */
export class Unauthorized extends ApiError {}

/** The client lacks the scope. */
export class Forbidden extends ApiError {}

/** Nothing of this holder has that name. */
export class NotFound extends ApiError {}

/** The cursor is older than events are kept: begin again without one, and expect a gap. */
export class CursorExpired extends ApiError {}

/** Too much at once; `retryAfter` says when there is more. */
export class RateLimited extends ApiError {}

/** The service cannot do it now, or cannot say what became of it. */
export class Unavailable extends ApiError {}

/** It is not from the service, or too old or too early; the message says why and holds nothing secret. */
export class InvalidWebhook extends PixConnectError {}

/** None of the given keys is the one that signed: read the key set again, at most once a minute, and try once more. */
export class UnknownSigningKey extends InvalidWebhook {}

const BY_STATUS: Readonly<Record<number, typeof ApiError>> = {
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  410: CursorExpired,
  429: RateLimited,
};

export function makeApiError(refusal: Refusal): ApiError {
  if (refusal.code === "EXTERNAL_ID_CONFLICT" || refusal.status === 409) {
    return new Conflict(refusal);
  }
  const kind = BY_STATUS[refusal.status] ?? (refusal.status >= 500 ? Unavailable : InvalidRequest);
  return new kind(refusal);
}
