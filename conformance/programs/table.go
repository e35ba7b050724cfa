package programs

import "slices"

// Cases returns the table of all cases of the groups; all groups if there is none.
func Cases(groups []string, quick bool) []Case {
	var all []Case
	for _, part := range [][]Case{verbsCases(), perftestCases(), cmCases(), fabricCases(), ucxCases(), mixedCases()} {
		for _, c := range part {
			if (len(groups) == 0 || slices.Contains(groups, c.Group)) && (!quick || c.Quick) {
				all = append(all, c)
			}
		}
	}
	return all
}

// Groups are the names of all groups, in the order of the table.
func Groups() []string {
	return []string{groupVerbs, groupPerftest, groupCM, groupFabric, groupUCX, groupPyverbs, groupMixed}
}
