// Package explain is "roce explain": it says in plain sentences what happened in a capture of RoCE
// v2, by the analyser of package roce/analyse, as text, JSON, or one self-contained page of HTML.
package explain
