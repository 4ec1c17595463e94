/** A request to the service as a value: what to send and how to decode the response. Nothing here does I/O. */
import { randomBytes } from "node:crypto";

import { makeApiError, NoAnswer, type PixConnectError } from "./errors.js";
import type { Page } from "./lists.js";
import { OPERATIONS, type Operation, type OperationId, type Operations } from "./operations.js";
import type { ErrorCode, Pagination } from "./types.js";

export type Query = Readonly<Record<string, string>>;

/** The arguments of an operation: path parameters, query and body. */
export type Parts<Id extends OperationId> = Omit<Operations[Id], "answer">;
export type AnswerOf<Id extends OperationId> = Operations[Id]["answer"];

/** Options of one request. */
export interface CallOptions {
  /** Abort signal. The call fails with `NoAnswer`; a request that was already sent may have taken effect. */
  signal?: AbortSignal;
  /** Your own request id, which errors and the service's log contain. */
  requestId?: string;
}

/** A response. */
export interface Answer {
  status: number;
  headers: Headers;
  content: Uint8Array;
  /** The open response to read from, if the body is not in `content`, and how to close it. */
  stream?: { chunks: AsyncIterable<Uint8Array>; cancel: () => Promise<void> };
}

/** One request for one operation. It is serialized before the first attempt, so later changes to the arguments have no effect. */
export interface Call<Result> {
  readonly method: string;
  /** The path with its parameters filled in. */
  readonly address: string;
  /** The path template of the OpenAPI document, for messages. */
  readonly path: string;
  readonly query: Query;
  readonly content: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** The idempotency key, which makes a retry safe. */
  readonly externalId: string | undefined;
  readonly isAuthorized: boolean;
  readonly isIdentity: boolean;
  readonly isStreamed: boolean;
  readonly alsoReads: readonly number[];
  /** How long the service may hold the request before it responds. */
  readonly extraTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly read: (answer: Answer) => Result;
}

interface LooseParts {
  parameters?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
  headers?: Readonly<Record<string, string>>;
  body?: unknown;
}

/** Decodes a response, or throws `Misread`. */
const READERS: Readonly<Record<Operation["reads"], (answer: Answer) => unknown>> = {
  bare: (answer) => readJson(answer),
  data: (answer) => readEnvelope(answer).data,
  octets: (answer) => answer.content,
  page: (answer) => readPage(answer),
  text: (answer) => decode(answer.content),
};

/** A response that is not from this service. */
class Misread extends Error {}

/** The login, which the client sends before other calls. The transport writes its body. */
export const LOGIN: Call<{ token: string; lifetimeMs: number }> = {
  method: "POST",
  address: "/v1/iam/users/login",
  path: "/v1/iam/users/login",
  query: {},
  content: undefined,
  headers: {},
  externalId: undefined,
  isAuthorized: false,
  isIdentity: true,
  isStreamed: false,
  alsoReads: [],
  extraTimeoutMs: 0,
  signal: undefined,
  read: (answer) => {
    const { access_token: token, expires_in: lifetimeS } = asRecord(readEnvelope(answer).data);
    if (typeof token !== "string" || token === "" || typeof lifetimeS !== "number") {
      throw new Misread("it is no token");
    }
    return { token, lifetimeMs: lifetimeS * 1000 };
  },
};

export function isRead(call: Call<unknown>): boolean {
  return call.method === "GET";
}

/** Whether a retry cannot have a second effect. */
export function isRepeatable(call: Call<unknown>): boolean {
  return isRead(call) || call.externalId !== undefined;
}

/** Build a call of an operation of the document. */
export function makeCall<Result>(id: OperationId, parts: object, options: CallOptions = {}): Call<Result> {
  const operation = OPERATIONS[id];
  const { parameters = {}, query = {}, headers = {}, body } = parts as LooseParts;
  const named = operation.isNamed ? nameBody(body) : { body, externalId: undefined };
  return {
    method: operation.method,
    address: fillPath(operation.path, parameters),
    path: operation.path,
    query: writeQuery(query),
    content: writeBody(named.body),
    headers: { ...headers, ...writeHeaders(options) },
    externalId: named.externalId,
    isAuthorized: operation.isAuthorized,
    isIdentity: operation.isIdentity,
    isStreamed: false,
    alsoReads: operation.alsoReads,
    extraTimeoutMs: 0,
    signal: options.signal,
    read: READERS[operation.reads] as (answer: Answer) => Result,
  };
}

/** Build a call of any other path. */
export function makeAnyCall(
  method: string,
  path: string,
  parts: { query?: Readonly<Record<string, unknown>>; body?: unknown },
  options: CallOptions = {},
): Call<unknown> {
  if (!path.startsWith("/")) {
    throw new TypeError(`path: must begin with a slash, not ${JSON.stringify(path)}`);
  }
  const body = parts.body as { external_id?: unknown } | null | undefined;
  const externalId = typeof body === "object" ? body?.external_id : undefined;
  return {
    method: method.toUpperCase(),
    address: path,
    path,
    query: writeQuery(parts.query ?? {}),
    content: writeBody(body),
    headers: writeHeaders(options),
    // A request with an external id can be retried safely.
    externalId: typeof externalId === "string" && externalId !== "" ? externalId : undefined,
    isAuthorized: true,
    isIdentity: false,
    isStreamed: false,
    alsoReads: [],
    extraTimeoutMs: 0,
    signal: options.signal,
    read: readAnything,
  };
}

/** Return the result of a response, or throw its error. */
export function readAnswer<Result>(call: Call<Result>, answer: Answer): Result {
  if (!(answer.status >= 200 && answer.status < 300) && !call.alsoReads.includes(answer.status)) {
    throw readFailure(call, answer);
  }
  try {
    return call.read(answer);
  } catch (error) {
    if (!(error instanceof Misread)) {
      throw error;
    }
    const message = `${call.method} ${call.path}: the response is not from this service: ${error.message}`;
    throw new NoAnswer(message, { mayHaveHappened: true, isTransient: false, cause: error });
  }
}

function readFailure(call: Call<unknown>, answer: Answer): PixConnectError {
  let found: Record<string, unknown> = {};
  try {
    found = asRecord(readJson(answer));
  } catch {
    // A proxy's page.
  }
  const { code, message, ...details } = readRefusal(answer.status, found);
  if (typeof code !== "string" || typeof message !== "string") {
    // A proxy responded in place of the service. Redirects are not followed: the token must not reach another host.
    return new NoAnswer(`${call.method} ${call.path}: the response, with status ${answer.status}, is not from this service`, {
      mayHaveHappened: true,
      isTransient: answer.status >= 500,
    });
  }
  const requestId = (found.meta as { request_id?: unknown } | undefined)?.request_id ?? found.correlationId;
  const retryAfter = answer.headers.get("retry-after") ?? "";
  return makeApiError({
    status: answer.status,
    code: code as ErrorCode,
    reason: message,
    requestId: typeof requestId === "string" ? requestId : (answer.headers.get("x-request-id") ?? ""),
    details,
    retryAfter: /^[0-9]{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined,
  });
}

/** Errors of the operations that have another form, by status; any other is BAD_REQUEST. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  405: "METHOD_NOT_ALLOWED",
  413: "PAYLOAD_TOO_LARGE",
  429: "RATE_LIMITED",
  500: "INTERNAL_ERROR",
  503: "SERVICE_UNAVAILABLE",
  504: "OUTCOME_UNKNOWN",
};

function readRefusal(status: number, found: Record<string, unknown>): Record<string, unknown> {
  const code = CODES[status] ?? "BAD_REQUEST";
  // The central bank's API and OAuth have forms of their own.
  if (typeof found.correlationId === "string" && typeof found.type === "string") {
    const { detail, correlationId: _, ...details } = found;
    const rules = (details.violacoes ?? []) as { propriedade?: string; razao?: string }[];
    const message = [detail, ...rules.map((rule) => `${rule.propriedade}: ${rule.razao}`)].join("; ");
    return { ...details, code, message };
  }
  if (typeof found.error === "string") {
    return { ...found, code, message: found.error_description };
  }
  return typeof found.error === "object" && found.error !== null ? { ...found.error } : {};
}

function nameBody(body: unknown): { body: object; externalId: string | undefined } {
  const given = (body ?? {}) as { external_id?: unknown };
  // Send a given id unchanged: the service validates it.
  const name = given.external_id ?? makeExternalId();
  return { body: { ...given, external_id: name }, externalId: typeof name === "string" && name !== "" ? name : undefined };
}

/** Return a new unique external id, so that the request can be retried. */
export function makeExternalId(): string {
  return randomBytes(16).toString("hex");
}

function fillPath(path: string, parameters: Readonly<Record<string, unknown>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    const text = typeof value === "number" && Number.isSafeInteger(value) ? String(value) : value;
    // These values would address another resource, whose response would be misleading.
    if (typeof text !== "string" || text === "" || text === "." || text === "..") {
      throw new TypeError(`${name}: must be a whole number or a text other than "", "." and "..", not ${String(value)}`);
    }
    return encodeURIComponent(text);
  });
}

function writeQuery(given: Readonly<Record<string, unknown>>): Query {
  const written: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) {
      continue;
    }
    written[name] = value instanceof Date ? value.toISOString() : String(value);
  }
  return written;
}

function writeBody(body: unknown): string | undefined {
  return body === undefined || body === null ? undefined : JSON.stringify(body, checkValue);
}

function checkValue(this: Record<string, unknown>, name: string, value: unknown): unknown {
  const given = this[name];
  if (given instanceof Date && Number.isNaN(given.getTime())) {
    throw new TypeError(`${name}: must be a point in time, not an invalid Date`);
  }
  // JSON serializes NaN as null, and larger numbers have already lost digits.
  if (typeof value === "number" && (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))) {
    throw new TypeError(`${name}: must be a number that is exact, not ${value}`);
  }
  return value;
}

function writeHeaders(options: CallOptions): Record<string, string> {
  return options.requestId === undefined ? {} : { "X-Request-Id": options.requestId };
}

function readPage(answer: Answer): Page<unknown> {
  const { data, pagination } = readEnvelope(answer);
  if (!Array.isArray(data) || typeof pagination !== "object" || pagination === null) {
    throw new Misread("it is no page of a list");
  }
  const numbers = pagination as Pagination;
  return { items: data, pagination: numbers, nextQuery: findNext(answer.headers.get("link") ?? "", numbers) };
}

function findNext(link: string, pagination: Pagination): Query | undefined {
  const [address = "", relation = ""] = link.split(">", 2);
  if (relation.includes('rel="next"')) {
    // Use only the query of the link: the token must not be sent to another host.
    const query = address.split("?", 2)[1] ?? "";
    return Object.fromEntries(new URLSearchParams(query));
  }
  // Lists without cursors are small and are paged by number.
  return pagination.has_next ? { page: String(pagination.page + 1) } : undefined;
}

function readEnvelope(answer: Answer): { data: unknown; pagination?: unknown } {
  const found = asRecord(readJson(answer));
  if (!("data" in found) || typeof found["data"] !== "object" || found["data"] === null) {
    throw new Misread("it has no data");
  }
  return found as { data: unknown; pagination?: unknown };
}

/** Return `data` of an envelope; otherwise the decoded JSON, or text. */
function readAnything(answer: Answer): unknown {
  if (!(answer.headers.get("content-type") ?? "").includes("json")) {
    return decode(answer.content);
  }
  const found = readJson(answer);
  return typeof found === "object" && found !== null && "data" in found ? found.data : found;
}

function readJson(answer: Answer): unknown {
  const text = decode(answer.content);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Misread("it is no JSON", { cause: error });
  }
}

function asRecord(found: unknown): Record<string, unknown> {
  if (typeof found !== "object" || found === null) {
    throw new Misread("it is no object");
  }
  return found as Record<string, unknown>;
}

function decode(content: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch (error) {
    throw new Misread("it is no UTF-8", { cause: error });
  }
}
