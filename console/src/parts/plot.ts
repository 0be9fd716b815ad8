// uPlot with its style: what the first chart loads.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export default uPlot;
