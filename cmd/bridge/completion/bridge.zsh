#compdef bridge
# zsh completion for bridge: bridge completion zsh > "${fpath[1]}/_bridge", or source <(bridge completion zsh)
_bridge() {
  local line
  local -a found
  while IFS= read -r line; do
    found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done < <("${(Q)words[1]/#\~/$HOME}" __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  _describe bridge found
}
if [[ ${funcstack[1]} == _bridge ]]; then _bridge "$@"; else compdef _bridge bridge; fi
