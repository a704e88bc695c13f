"""The tables as the documented schema had them at version 1."""

BASE = {
    "sessions": "id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT,"
    " model_config TEXT, system_prompt TEXT, parent_session_id TEXT REFERENCES sessions(id),"
    " started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0,"
    " tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0,"
    " output_tokens INTEGER DEFAULT 0",
    "messages": "id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content TEXT,"
    " tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,"
    " token_count INTEGER",
}
