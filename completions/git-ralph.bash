# Part of git-ralph, for bash: git's own completion calls _git_ralph, bash-completion's loader finds it.

# Fills COMPREPLY from what the program says about the words of a command line that begins with its name.
# $1: the index of the word that is being typed; $2: that word; then the program and its words.
__git_ralph_reply ()
{
	local index=$1 cur value prefix= format='%q '
	# Readline hands words over as they were typed, quotes and all.
	case "$2" in
	[\"\']*) format='%s' ;;
	esac
	cur=${2//[\\\"\']/}
	shift 2
	# Of a word with '=' or ':' in it readline replaces only what comes behind.
	case "$cur" in
	*[=:]*) prefix=${cur%"${cur##*[=:]}"} ;;
	esac
	case "$prefix" in
	*:) [[ $COMP_WORDBREAKS == *:* ]] || prefix= ;;
	*=) [[ $COMP_WORDBREAKS == *=* ]] || prefix= ;;
	esac
	COMPREPLY=()
	while IFS=$'\t' read -r value _; do
		[[ $value == "$cur"* ]] || continue
		# Within quotes that are open nothing is offered that would mean something there.
		[[ $format == '%s' && $value == *[\\\$\`\"\'!]* ]] && continue
		value=${value#"$prefix"}
		# git asks readline to leave the blank to us.
		case "$value" in
		*/) printf -v value "${format% }" "$value" ;;
		*) printf -v value "$format" "$value" ;;
		esac
		COMPREPLY+=("$value")
	done < <(GIT_RALPH_COMPLETE=$index "${@//[\\\"\']/}" 2>/dev/null)
}

# git ralph: called by git's completion, which has set words, cword and cur.
_git_ralph ()
{
	local first=$((${__git_cmd_idx:-1} + 1))
	__git_ralph_reply $((cword - first + 1)) "$cur" \
		git ${__git_C_args[@]+"${__git_C_args[@]}"} ${__git_dir:+"--git-dir=$__git_dir"} \
		ralph -- git-ralph "${words[@]:first}"
}

# git-ralph itself.
__git_ralph_direct ()
{
	local cur prev words cword
	_get_comp_words_by_ref -n =: cur prev words cword
	__git_ralph_reply "$cword" "$cur" "$1" -- "${words[@]}"
}

complete -o bashdefault -o default -o nospace -F __git_ralph_direct git-ralph
