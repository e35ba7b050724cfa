# Completion of roce for bash. It asks roce itself what there is.

_roce_tools() { "$1" help 2>/dev/null | sed -n '/^Tools:/,$ s/^  \([a-z_]\{1,\}\) .*/\1/p'; }

# The options of a tool, a line each; those that take a value end in "=".
_roce_options() { "$1" "$2" -h 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-zA-Z0-9_-]\{1,\}=\{0,1\}\).*/\2/p'; }

_roce() {
	local roce=${COMP_WORDS[0]} tool=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} options i
	COMPREPLY=()
	if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $tool == help ]]; }; then
		COMPREPLY=($(compgen -W "help $(_roce_tools "$roce")" -- "$cur"))
		return
	fi
	if [[ $tool == completion ]]; then
		COMPREPLY=($(compgen -W "bash zsh" -- "$cur"))
		return
	fi
	options=$(_roce_options "$roce" "$tool")
	if [[ $tool == run ]]; then # from the first operand on it is somebody else's command line
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) ((i++)) && break ;;
			-d) ((i++)) ;;
			--*) # bash takes "--addr=X" apart, into three
				if [[ ${COMP_WORDS[i + 1]} == "=" ]]; then
					((i += 2))
				elif [[ $'\n'$options$'\n' == *$'\n'"${COMP_WORDS[i]}="$'\n'* ]]; then
					((i++))
				fi
				;;
			-*) ;;
			*) break ;;
			esac
		done
		if ((i < COMP_CWORD)); then
			declare -F _command_offset >/dev/null && _command_offset "$i"
			return
		elif ((i == COMP_CWORD)) && [[ $cur != -* ]]; then
			COMPREPLY=($(compgen -c -- "$cur"))
			return
		fi
	fi
	if [[ $cur == "=" ]]; then
		cur=
	elif [[ $prev == "=" ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $prev == --link ]]; then
		COMPREPLY=($(compgen -W "udp packet xdp" -- "$cur"))
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
		[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	fi # else names of files, by -o default
	return 0
}

complete -o bashdefault -o default -F _roce roce
