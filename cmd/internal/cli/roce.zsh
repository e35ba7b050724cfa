#compdef roce
# Completion of roce for zsh. It asks roce itself what there is.

_roce() {
	local -a tools options
	local i
	if ((CURRENT == 2)) || { ((CURRENT == 3)) && [[ ${words[2]} == help ]] }; then
		tools=("help:the tools, or the options of one" ${(f)"$(_call_program tools ${(q)words[1]} help | sed -n '/^Tools:/,$ s/^  \([a-z_]\{1,\}\)  *\(.*\)/\1:\2/p')"})
		_describe -t tools tool tools
		return
	fi
	if [[ ${words[2]} == completion ]]; then
		compadd bash zsh
		return
	fi
	if [[ ${words[2]} == run ]]; then # from the first operand on it is somebody else's command line
		for ((i = 3; i < CURRENT; i++)); do
			case ${words[i]} in
			--) ((i++)); break ;;
			-d|--addr|--ib-dev|--link) ((i++)) ;;
			-*) ;;
			*) break ;;
			esac
		done
		if ((i < CURRENT)) || { ((i == CURRENT)) && [[ ${words[CURRENT]} != -* ]] }; then
			shift $((i - 1)) words
			((CURRENT -= i - 1))
			_normal
			return
		fi
	fi
	if [[ ${words[CURRENT]} == --link=* ]]; then
		compset -P '--link='
		compadd udp packet xdp
		return
	fi
	if [[ ${words[CURRENT]} == -* ]]; then
		options=(${(f)"$(_call_program options ${(q)words[1]} ${(q)words[2]} -h | sed -n 's/^  \(-., \|    \)\(--[a-zA-Z0-9_-]\{1,\}\)[^ ]* *\(.*\)/\2:\3/p')"})
		_describe -o -t options option options
		return
	fi
	_files
}

# Sourced it registers itself; as a function of $fpath it is the body of the first call.
if [[ ${funcstack[1]} == _roce ]]; then _roce "$@"; else compdef _roce roce; fi
