# Part of git-ralph, for fish: from 3.6.1 on fish's own completion of git hands "git ralph" over to it.

function __git_ralph_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    # A word that is being typed may still lack its closing quote.
    set -l current (string unescape -- $typed; or string trim --left --chars=\'\" -- $typed)
    set -l found (GIT_RALPH_COMPLETE=(count $words) git-ralph -- git-ralph $words[2..] "$current" 2>/dev/null)
    if set -q found[1]
        string join \n -- $found
    else if contains -- -- $words
        __fish_complete_path "$current"
    end
end

complete -c git-ralph -f -a '(__git_ralph_complete)'
