/** Lists as the service answers them, a page at a time; iterating one goes on over all pages. */
import type { Pagination } from "./types.js";

export interface Page<Item> {
  items: Item[];
  pagination: Pagination;
  /** What to ask for the next page; undefined after the last. */
  nextQuery: Readonly<Record<string, string>> | undefined;
}

/** A list: iterate over its items, or over its `pages()`, with `for await`; a page is asked for when it is reached. */
export class Items<Item> implements AsyncIterable<Item> {
  readonly #readPage: (query: Readonly<Record<string, string>> | undefined) => Promise<Page<Item>>;

  constructor(readPage: (query: Readonly<Record<string, string>> | undefined) => Promise<Page<Item>>) {
    this.#readPage = readPage;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) {
      yield* page.items;
    }
  }

  async *pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let page = await this.#readPage(undefined);
    yield page;
    while (page.nextQuery !== undefined) {
      page = await this.#readPage(page.nextQuery);
      yield page;
    }
  }
}
