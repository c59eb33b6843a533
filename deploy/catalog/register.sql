-- The tables of an output in a catalog: Unity's, Hive's, or Spark's own. They are Delta tables as they are, and stay where
-- they are. Write your store for ${store}, the output's name for ${output}, and for ${schema} a schema, with Unity as
-- catalog.schema. Read them only: what others write is not in the ledger.

CREATE SCHEMA IF NOT EXISTS ${schema};

-- Every pane that was ever published: batch by batch, in order of sequence, a retract before what takes its place.
-- The view of the numbers that stand is printed by: latecomer serving FILE OUTPUT --sql spark
CREATE TABLE IF NOT EXISTS ${schema}.${output}_panes
USING delta LOCATION '${store}/outputs/${output}/panes';

-- Events that were fine, and too late for their window.
CREATE TABLE IF NOT EXISTS ${schema}.${output}_late
USING delta LOCATION '${store}/outputs/${output}/late';

-- What was received, and what became of it. A batch is complete once it is here.
CREATE TABLE IF NOT EXISTS ${schema}.${output}_ledger
USING delta LOCATION '${store}/ledger';
