# fish completion for bridge: bridge completion fish > ~/.config/fish/completions/bridge.fish
function __bridge_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l command $words[1]
    set -e words[1]
    $command __complete -- $words "$current" 2>/dev/null
end
complete -c bridge -f -a '(__bridge_complete)'
