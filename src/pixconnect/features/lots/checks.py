"""Proof of lots: their lists of charges never change."""

from typing import Final

from pixconnect.kernel.rules.proof import Rule

LOTS: Final = (
    Rule(
        name="lot_has_its_charges",
        says="each place in a lot has its charge, with its txid and a due date, or waits for a pending request",
        broken="""
            select holder_id, array['lot ' || lot_number, 'place ' || place] as ids,
                concat_ws(' ', case when is_wanted then 'one' end, item.status, 'charge ' || charge_id) as expected,
                format('charge %s, %s requests', charge.id, coalesce(requests_count, 0)) as found, charge.created_at as since
            from (
                select holder_id, number as lot_number, place::smallint, true as is_wanted
                from charge_lot cross join generate_series(0, item_count - 1) as place where holder_id between $1 and $2
            ) as lot
            full join (select * from lot_item where holder_id between $1 and $2) as item using (holder_id, lot_number, place)
            full join (
                select holder_id, lot_number, place, count(*) as requests_count
                from lot_request where holder_id between $1 and $2 group by holder_id, lot_number, place
            ) as asked using (holder_id, lot_number, place)
            left join charge using (holder_id, txid)
            where is_wanted is null or item.status is null or (item.status = 'PROCESSING') <> (requests_count is not null)
                or charge_id is distinct from charge.id or charge.id is not null and due_on is null
        """,
        is_of_whole_runs=True,
        meaning="a charge of a lot was lost, added or belongs to another holder, or a request is never done, or done twice",
        todo="compare the holder's requests with the charges of these txids, and ask the holder to send the lot again",
    ),
)
