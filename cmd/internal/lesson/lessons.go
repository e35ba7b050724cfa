package lesson

// part is a group of lessons.
type part struct {
	title   string
	lessons []lesson
}

// parts are all lessons. Each builds on those before it.
func parts() []part {
	return []part{
		{"A connection", connecting()},
		{"Memory that others may touch", memory()},
		{"Messages and their size", messages()},
		{"What is done when", order()},
		{"What gets lost", loss()},
		{"Structures in the memory of another", structures()},
		{"Too much for the network", congestion()},
	}
}

func lessons() (all []lesson) {
	for _, p := range parts() {
		all = append(all, p.lessons...)
	}
	return all
}

// everything is what "roce lesson NAME" can play.
func everything() []lesson { return append(append(lessons(), exercises()...), quiz()...) }
