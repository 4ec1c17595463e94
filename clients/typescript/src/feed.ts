/** The feed: every event of the holder, whether or not a webhook endpoint was told of it, in an order that never changes. */
import { type Call, type CallOptions, makeCall } from "./call.js";
import { ApiError, type PixConnectError } from "./errors.js";
import type { QueryOf, Sender } from "./resource.js";
import { backoff, isTransient, wait } from "./transport.js";
import type { EventFeed, EventName, FeedEvent, WebhookEvent } from "./types.js";

/** Below what proxies usually allow an answer to take. Seconds. */
const FOLLOW_WAIT_S = 25;

type Told<Event> = Event extends { name: infer Name; payload: infer Payload }
  ? Omit<FeedEvent, "name" | "payload"> & { name: Name; payload: Payload }
  : never;

/** An event of the feed: its `name` says what its `payload` is. Keep its `cursor` with what you did about it. */
export type FeedItem = Told<WebhookEvent>;

/** A part of the feed, and the cursor that goes on after it: keep it, also where there were no events. */
export type FeedPart = Omit<EventFeed, "events"> & { events: FeedItem[] };

export type FeedQuery = Omit<QueryOf<"read_event_feed">, "event_types"> & {
  /** Only events of these names. */
  event_types?: readonly EventName[];
};

export interface FollowOptions extends CallOptions {
  /**
   * Told of each break, after which the same cursor is asked for again; what it throws ends the iteration. Without it one from
   * before the first answer is thrown, since it may be the address that is wrong.
   */
  onBreak?: (error: PixConnectError) => void;
}

/** Write a question for a part of the feed. */
export function makeFeedCall(query: FeedQuery, options?: CallOptions): Call<FeedPart> {
  const { event_types: names, ...others } = query;
  const types = names === undefined || names.length === 0 ? {} : { event_types: names.join(",") };
  const call = makeCall<FeedPart>("read_event_feed", { query: { ...others, ...types } }, options);
  return { ...call, extraTimeoutMs: (query.wait_s ?? 0) * 1000 };
}

/** Every event as it comes, without an end but the signal's; a break only waits, and loses none. */
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
