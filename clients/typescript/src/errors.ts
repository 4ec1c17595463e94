/**
 * Errors of this package.
 *
 *     PixConnectError
 *      ├── ApiError            an error response: status, code, reason, field, requestId, retryAfter
 *      │    ├── InvalidRequest  400, 405, 413, 422: will fail again without a change
 *      │    │    └── Conflict    the external_id belongs to another request
 *      │    ├── Unauthorized    401
 *      │    ├── Forbidden       403: the client lacks the scope
 *      │    ├── NotFound        404
 *      │    ├── CursorExpired   410: events before the cursor are no longer kept
 *      │    ├── RateLimited     429
 *      │    └── Unavailable     5xx
 *      ├── NoAnswer            no response, or one that cannot be read
 *      └── InvalidWebhook      a webhook with a wrong signature
 *           └── UnknownSigningKey
 *
 * After an error check `mayHaveHappened`. If it is true, the request may have taken effect: look it up by `externalId`, or send
 * the same request with the same id again until there is a response.
 */
import type { ErrorCode } from "./types.js";

/** Base class of all errors of this package. */
export class PixConnectError extends Error {
  /** Whether the request may have taken effect despite the error, by this attempt or an earlier one. */
  mayHaveHappened = false;
  /** The idempotency key of the request, also if the client generated it; undefined if a retry is not safe. */
  externalId: string | undefined = undefined;
  /** Whether the login failed, so that the request was not sent. */
  isOfLogin = false;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No response, or one that cannot be read. */
export class NoAnswer extends PixConnectError {
  /** Whether a retry may succeed. */
  readonly isTransient: boolean;

  constructor(message: string, facts: { mayHaveHappened?: boolean; isTransient?: boolean; cause?: unknown } = {}) {
    super(message, { cause: facts.cause });
    this.mayHaveHappened = facts.mayHaveHappened ?? false;
    this.isTransient = facts.isTransient ?? true;
  }
}

/** The members of an error response. */
export interface Refusal {
  status: number;
  code: ErrorCode;
  reason: string;
  requestId: string;
  details: Readonly<Record<string, unknown>>;
  retryAfter: number | undefined;
}

/** An error response of the service. */
export class ApiError extends PixConnectError {
  readonly status: number;
  /** The error code; see the reference of errors. Later versions of the service may add codes. */
  readonly code: ErrorCode;
  /** Text for people, with the field and the rule. */
  readonly reason: string;
  /** The field in `reason`, if there is one. */
  readonly field: string | undefined;
  /** Other members of the response. */
  readonly details: Readonly<Record<string, unknown>>;
  /** Quote this id in support requests. */
  readonly requestId: string;
  /** Seconds to wait before a retry, if the service gave them. */
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
    // With this code the service itself cannot determine the outcome.
    this.mayHaveHappened = refusal.code === "OUTCOME_UNKNOWN" || refusal.code === "INTERNAL_ERROR";
  }
}

/** The request will fail again unless it, or something else such as the balance or a limit, changes. */
export class InvalidRequest extends ApiError {}

/** The `external_id` belongs to another request. */
export class Conflict extends InvalidRequest {}

/** The client id or secret is wrong, or the client is disabled. */
export class Unauthorized extends ApiError {}

/** The client lacks the scope. */
export class Forbidden extends ApiError {}

/** The holder has no resource with this id. */
export class NotFound extends ApiError {}

/** The cursor is older than the retention of events. Start again without a cursor and expect a gap. */
export class CursorExpired extends ApiError {}

/** Rate limit exceeded; retry after `retryAfter`. */
export class RateLimited extends ApiError {}

/** The service is unavailable, or cannot determine the outcome. */
export class Unavailable extends ApiError {}

/** The webhook has a wrong signature or timestamp. The message gives the reason and contains no secret. */
export class InvalidWebhook extends PixConnectError {}

/** The key set lacks the signing key. Fetch it again, at most once a minute, and retry the check. */
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
