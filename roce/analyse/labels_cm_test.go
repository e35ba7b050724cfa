package analyse_test

func callLabels() []label { return nil }

type call struct{}
