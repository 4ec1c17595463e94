/** The event feed: every event of the holder in a fixed order, also events without a webhook. */
import { type Call, type CallOptions, makeCall } from "./call.js";
import { ApiError, type PixConnectError } from "./errors.js";
import type { QueryOf, Sender } from "./resource.js";
import { backoff, isTransient, wait } from "./transport.js";
import type { EventFeed, EventName, FeedEvent, WebhookEvent } from "./types.js";

/** Shorter than the response timeout of most proxies. Seconds. */
const FOLLOW_WAIT_S = 25;

type Told<Event> = Event extends { name: infer Name; payload: infer Payload }
  ? Omit<FeedEvent, "name" | "payload"> & { name: Name; payload: Payload }
  : never;

/** An event of the feed. Its `name` determines the type of `payload`. Store its `cursor` together with your processing. */
export type FeedItem = Told<WebhookEvent>;

/** A page of the feed and the cursor after it. Store the cursor even if the page is empty. */
export type FeedPart = Omit<EventFeed, "events"> & { events: FeedItem[] };

export type FeedQuery = Omit<QueryOf<"read_event_feed">, "event_types"> & {
  /** Only events of these types. */
  event_types?: readonly EventName[];
};

export interface FollowOptions extends CallOptions {
  /**
   * Called on each failure, before the same cursor is requested again. If it throws, the iteration ends. Without it, a failure
   * before the first response is thrown, since the address may be wrong.
   */
  onBreak?: (error: PixConnectError) => void;
}

/** Build the request for a page of the feed. */
export function makeFeedCall(query: FeedQuery, options?: CallOptions): Call<FeedPart> {
  const { event_types: names, ...others } = query;
  const types = names === undefined || names.length === 0 ? {} : { event_types: names.join(",") };
  const call = makeCall<FeedPart>("read_event_feed", { query: { ...others, ...types } }, options);
  return { ...call, extraTimeoutMs: (query.wait_s ?? 0) * 1000 };
}

/** Iterate over events until the signal aborts. Failures are retried without losing events. */
export async function* follow(
  sender: Sender,
  query: FeedQuery,
  options: FollowOptions = {},
): AsyncGenerator<FeedItem, void, undefined> {
  let asked: FeedQuery = { wait_s: FOLLOW_WAIT_S, ...query };
  let breaks = 0;
  let hasAnswered = false;
  const isEnded = (): boolean => options.signal?.aborted === true;
  while (!isEnded()) {
    let part: FeedPart;
    try {
      part = await sender.send(makeFeedCall(asked, options));
    } catch (error) {
      if (isEnded()) {
        return;
      }
      if (!isTransient(error) || (!hasAnswered && options.onBreak === undefined)) {
        throw error;
      }
      options.onBreak?.(error as PixConnectError);
      const askedS = error instanceof ApiError ? (error.retryAfter ?? 0) : 0;
      await wait(askedS * 1000 + backoff(breaks), options.signal);
      breaks += 1;
      continue;
    }
    breaks = 0;
    hasAnswered = true;
    yield* part.events;
    const { start: _, ...others } = asked;
    asked = { ...others, cursor: part.cursor };
  }
}
