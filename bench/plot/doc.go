// Package plot writes the charts of the reports as SVG: lines, points and
// grouped bars, with axes, a legend and nothing else. The output is a function
// of the data alone, so that a chart that is made again from the same figures
// shows no difference, and it is small enough to be committed.
package plot
