/** A client of a Pix Connect service: charges, transfers, refunds, the account, webhooks, the event feed, and the sandbox. */
export type { AnswerOf, CallOptions } from "./call.js";
export { Client } from "./client.js";
export { Download, type StatementQuery } from "./download.js";
export {
  ApiError,
  Conflict,
  CursorExpired,
  Forbidden,
  InvalidRequest,
  InvalidWebhook,
  NoAnswer,
  NotFound,
  PixConnectError,
  RateLimited,
  Unauthorized,
  Unavailable,
  UnknownSigningKey,
} from "./errors.js";
export type { Fetch } from "./exchange.js";
export type { FeedItem, FeedPart, FeedQuery, FollowOptions } from "./feed.js";
export { Items, type Page } from "./lists.js";
export type { OperationId, Operations } from "./operations.js";
export type { ByKeyOptions, ChargeOptions, NewEndpoint } from "./resources.js";
export type { ClientOptions } from "./transport.js";
export type * from "./types.js";
export { VERSION } from "./version.js";
export {
  type JwsOptions,
  type NoticeOptions,
  type NoticePix,
  TOLERANCE_S,
  verifyNotice,
  verifyWebhook,
  verifyWebhookBody,
  verifyWebhookJws,
  type WebhookHeaders,
  type WindowOptions,
} from "./webhook.js";
