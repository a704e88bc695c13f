echo '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}' > train.jsonl
echo '{"messages": [{"role": "user", "content": "Bye"}, {"role": "assistant", "content": "See you."}]}' > eval.jsonl
