// Prints which operation each method asks for, as JSON: {"charges.create": "create_charge", ...}.
import { Account, Charges, Deliveries, Endpoints, Events, Identity, Infractions, Refunds, Transfers } from "../dist/esm/resources.js";
import { OPERATIONS } from "../dist/esm/operations.js";
import { Sandbox } from "../dist/esm/sandbox.js";

const GROUPS = { charges: Charges, transfers: Transfers, refunds: Refunds, infractions: Infractions, endpoints: Endpoints, deliveries: Deliveries };
const MORE = { events: Events, identity: Identity, sandbox: Sandbox, "": Account };

/** A transport that accepts any call and records its operation. */
class Listener {
  asked = [];

  send(call) {
    this.asked.push(call);
    return Promise.resolve({ events: [{}], cursor: "c", has_more: false });
  }

  iterate(call) {
    this.asked.push(call);
    return [];
  }
}

async function find(Kind, method) {
  for (const first of [7, {}]) {
    const listener = new Listener();
    try {
      const given = new Kind(listener)[method](first, {});
      await (typeof given?.next === "function" ? given.next() : given);
    } catch (error) {
      if (!(error instanceof TypeError)) {
        throw error;
      }
    }
    const [call] = listener.asked;
    if (call !== undefined) {
      return Object.keys(OPERATIONS).find((id) => OPERATIONS[id].method === call.method && OPERATIONS[id].path === call.path);
    }
  }
  return undefined;
}

const found = {};
for (const [group, Kind] of Object.entries({ ...GROUPS, ...MORE })) {
  for (const method of Object.getOwnPropertyNames(Kind.prototype).filter((name) => name !== "constructor")) {
    found[group === "" ? method : `${group}.${method}`] = await find(Kind, method);
  }
}
console.log(JSON.stringify(found));
