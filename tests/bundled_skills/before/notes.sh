mkdir -p vault/Drinks vault/.obsidian
export VAULT="$PWD/vault"
printf -- '---\ntags: [drinks]\n---\n# Tea\n\nLeaves in water. #hot\n' > vault/Drinks/Tea.md
printf 'I like [[Tea]].\n' > vault/Me.md
