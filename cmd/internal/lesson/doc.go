// Package lesson is "roce lesson": guided runs on a simulated link, one idea each, and exercises.
// What a lesson prints of its packets and queues and of what they mean is not canned: the run
// happens, its packets and the state of the engine are recorded, and the analyser explains them. So
// a reader can change a number and look again, and is told if that number would change nothing.
package lesson
