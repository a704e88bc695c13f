grep -q '^# Plan:' docs/plans/csv-export.md
