# bash completion for bridge: source <(bridge completion bash)
_bridge() {
  local line words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("$(printf %q "${line%%$'\t'*}")")
  done < <("${COMP_WORDS[0]/#\~/$HOME}" __complete -- "${words[@]}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _bridge bridge
