// Package lesson is "roce lesson": a dozen guided runs on a simulated link, one idea each. What a lesson prints of its
// packets and of what they mean is not canned: the run happens, its packets are recorded, and the analyser explains them. So a
// reader can change a number and look again.
package lesson
