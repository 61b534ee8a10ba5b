# Part of git-ralph, for fish: hands "git ralph" over to the completion of git-ralph in versions of fish whose own completion of git does not.

if string match -qr '^(2\.|3\.[0-5]\.|3\.6\.0)' -- "$version"
    function __git_ralph_of_git
        set -l words (commandline -opc)
        set -l at (contains -i -- ralph $words)
        or return
        set -l found (GIT_RALPH_COMPLETE=(math (count $words) - $at + 1) $words[1..$at] -- git-ralph $words[(math $at + 1)..] (commandline -ct) 2>/dev/null)
        string join \n -- $found
    end
    complete -c git -f -n '__fish_git_using_command ralph' -a '(__git_ralph_of_git)'
end
