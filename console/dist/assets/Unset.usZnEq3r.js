import{Bn as e,Dt as t,Jt as n,Nn as r,On as i,Wn as a,Xn as o,ar as s,ir as c,jn as l,rn as u,tr as d}from"./shared.CeQcHI7W.js";import"./legacy.Niv4pJPf.js";var f=r(`<p class="meta"> </p>`);function p(r,p){s(p,!1),u();{let s=d(()=>n(`past.unset`)),c=d(()=>n(`past.unset_text`));t(r,{icon:`history`,get title(){return e(s)},get text(){return e(c)},command:`[history]
url_file = "/run/secrets/history-url"
payloads = "failed"
keys = ["customer"]
retention = "90d"`,children:(e,t)=>{var r=f(),s=o(r,!0);a(e=>i(s,e),[()=>n(`past.unset_doc`,{file:`docs/sql.md`,command:`streamfleet sql migrate`})]),l(e,r)},$$slots:{default:!0}})}c()}export{p as t};