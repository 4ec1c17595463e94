import asyncio, sys
sys.path.insert(0,'/work/main/tests')
import pytest
import importlib.util
spec=importlib.util.spec_from_file_location('tp','/work/main/tests/store/test_plans.py'); tp=importlib.util.module_from_spec(spec); spec.loader.exec_module(tp)
class Explaining:
    def __init__(s,c): s.c=c; s.out=[]
    async def fetch(s,sql,*a):
        if sql.strip().startswith('select coalesce(sum(pg_stat'): return await s.c.fetch(sql,*a)
        rows=await s.c.fetch('explain '+sql, *a) 
        s.out.append('\n'.join(r[0] for r in rows)); return await s.c.fetch(sql,*a)
    async def fetchrow(s,sql,*a):
        r=await s.fetch(sql,*a); return r[0] if r else None
    async def fetchval(s,sql,*a):
        r=await s.fetch(sql,*a); return r[0][0] if r else None
    async def execute(s,sql,*a): await s.fetch(sql,*a)
async def test_x(database):
    async with tp.open_tables(database) as (owner, open_one):
        stage=open('/tmp/stage').read().strip()
        if stage=='few':
            for h in (1,2,3): await tp.fill(owner,h,h,h)
            await owner.execute('analyze')
        early=await open_one()
        for st in tp.STATEMENTS.values(): await tp.count_blocks(early, st, times=6)
        plans={}
        for name, st in tp.STATEMENTS.items():
            e=Explaining(early)
            t=early.transaction(); await t.start()
            await st(e); await t.rollback()
            plans[name]=e.out
        await tp.fill(owner,2 if stage=='none' else 4,tp.ROWS_COUNT,1)
        w=await tp.find_wasteful(early,times=1)
        for n,b in w.items():
            print('=====',n,b); print('\n'.join(plans[n]))
        w2=await tp.find_wasteful(await open_one(),times=7); print('NEW CONNECTION', w2)
        await owner.execute('analyze')
        print('ANALYZED', await tp.find_wasteful(early,times=1), await tp.find_wasteful(await open_one(),times=7))
