// Ask the built documentation: the scripts of the page, the index, and the first addresses for each question.
import { readFileSync } from "node:fs";
import vm from "node:vm";
