-- Statistics of model calls, messages and tools. `{join}`, `{only}` and `{quarter}` are filled in by
-- `usage.py`; "family" and "everyone" are the beginning of the statements that use them.

-- The session of a compaction and the sessions of subagents count to the session they come from; a
-- branch is a conversation of its own.
-- Section: family
WITH RECURSIVE family(id, is_subagent) AS (
    SELECT id, 0 FROM sessions WHERE id = ?
    UNION
    SELECT child.id, CASE WHEN made.reason IS NULL THEN 1 ELSE family.is_subagent END
    FROM family
    JOIN sessions AS child ON child.parent_session_id = family.id
    LEFT JOIN (SELECT session_id, min(reason) AS reason FROM projections
        WHERE reason IN ('branch', 'compression') GROUP BY session_id) AS made
        ON made.session_id = child.id
    WHERE made.reason IS NULL OR made.reason <> 'branch'
)
-- Section: everyone
WITH family(id, is_subagent) AS (
    SELECT sessions.id, CASE WHEN parent_session_id IS NULL OR EXISTS (
        SELECT 1 FROM projections
        WHERE session_id = sessions.id AND reason IN ('branch', 'compression')
    ) THEN 0 ELSE 1 END FROM sessions
)
-- Section: sums
SELECT task, model, provider, tool, coalesce(is_subagent, 0) AS by_subagent, count(*),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    sum(reasoning_tokens), coalesce(sum(cost_usd), 0), count(*) - count(cost_usd)
FROM model_calls {join} JOIN family ON family.id = model_calls.session_id
WHERE timestamp >= ?
GROUP BY task, model, provider, tool, coalesce(is_subagent, 0)
ORDER BY 12 DESC, 6 DESC, task, model, tool
-- Section: spent by family
SELECT coalesce(sum(cost_usd), 0)
FROM model_calls JOIN family ON family.id = model_calls.session_id WHERE timestamp >= ?
-- Section: spent by user
SELECT coalesce(sum(cost_usd), 0)
FROM model_calls JOIN sessions ON sessions.id = model_calls.session_id
WHERE sessions.user_id = ? AND timestamp >= ?
-- Section: spent by all
SELECT coalesce(sum(cost_usd), 0) FROM model_calls WHERE timestamp >= ?

-- Activity since a moment.
-- Section: sessions
SELECT sessions.source, coalesce(sessions.model, ''), min(messages.timestamp),
    max(messages.timestamp), count(*), coalesce(sessions.end_reason, '')
FROM messages JOIN sessions ON sessions.id = messages.session_id
WHERE messages.timestamp >= ? {only}
GROUP BY sessions.id, sessions.source, sessions.model, sessions.end_reason
ORDER BY 3, sessions.id
-- Section: tools
SELECT coalesce(tool_name, ''), count(*), sum(CASE WHEN finish_reason = 'error' THEN 1 ELSE 0 END)
FROM messages WHERE role = 'tool' AND timestamp >= ? {only}
GROUP BY tool_name ORDER BY 2 DESC, 1
-- Section: messages
SELECT floor(timestamp / {quarter}), count(*) FROM messages WHERE timestamp >= ? {only}
GROUP BY 1 ORDER BY 1
-- Section: spent
SELECT floor(timestamp / {quarter}),
    sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens),
    coalesce(sum(cost_usd), 0)
FROM model_calls WHERE timestamp >= ? {only} GROUP BY 1 ORDER BY 1
-- Section: calls
SELECT coalesce(sessions.source, ''), model_calls.model, provider, task, count(*),
    sum(model_calls.input_tokens), sum(model_calls.output_tokens),
    sum(model_calls.cache_read_tokens), sum(model_calls.cache_write_tokens),
    sum(model_calls.reasoning_tokens), coalesce(sum(cost_usd), 0), count(*) - count(cost_usd)
FROM model_calls LEFT JOIN sessions ON sessions.id = model_calls.session_id
WHERE timestamp >= ? {only}
GROUP BY sessions.source, model_calls.model, provider, task
ORDER BY 11 DESC, 5 DESC, 2, 4
